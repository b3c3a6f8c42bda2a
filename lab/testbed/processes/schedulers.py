"""Make a kube-scheduler configuration usable on the testbed without changing what it says about scheduling.

Why: the tests must prove the files that users install, not copies of them.
Rule: only the connection to the API server, leader election and the address of each extender are replaced;
profiles, verbs, weights and timeouts stay as they are in the file.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import yaml

Document = Mapping[str, Any]
"""A YAML or JSON object of Kubernetes; only the keys that are needed are looked at."""

PLAIN: Document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
"""kube-scheduler as it comes: one profile named default-scheduler and no extender."""


def load_configuration(source: Document | Path) -> dict[str, Any]:
    """The KubeSchedulerConfiguration in `source`: a document, a file, or a file with a ConfigMap around it.

    ValueError if there is none or more than one.
    """
    if not isinstance(source, Path):
        return copy.deepcopy(dict(source))
    documents = [one for one in yaml.safe_load_all(source.read_text()) if isinstance(one, dict)]
    maps = [one for one in documents if one.get("kind") == "ConfigMap"]
    inner = [yaml.safe_load(text) for one in maps for text in one.get("data", {}).values()]
    every = [one for one in (*documents, *inner) if isinstance(one, dict)]
    found = [one for one in every if one.get("kind") == "KubeSchedulerConfiguration"]
    if len(found) != 1:
        raise ValueError(f"{source} holds {len(found)} KubeSchedulerConfigurations, expected one")
    return found[0]


def on_testbed(configuration: Document, *, kubeconfig: Path, extender: str | None = None) -> dict[str, Any]:
    """The configuration with our kubeconfig, client limits that hide nothing, and no leader election.

    `extender` is the base URL of a local netgang, such as http://127.0.0.1:20123; each extender entry keeps its
    path below it. ValueError if the configuration has extenders and no address is given for them.
    """
    ready = copy.deepcopy(dict(configuration))
    ready["clientConnection"] = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000}
    ready["leaderElection"] = {"leaderElect": False}
    if not ready.get("extenders"):
        return ready
    if extender is None:
        raise ValueError("the configuration has extenders: say at which URL netgang listens")
    for entry in ready["extenders"]:
        entry["urlPrefix"] = readdress(entry["urlPrefix"], extender)
        if urlsplit(extender).scheme == "http":  # certificates of the installed service mean nothing on loopback
            entry.pop("enableHTTPS", None)
            entry.pop("tlsConfig", None)
    return ready


def readdress(url: str, base: str) -> str:
    """`url` with scheme, host and port of `base`.

    >>> readdress("https://netgang.netgang.svc:8443/hold", "http://127.0.0.1:20123")
    'http://127.0.0.1:20123/hold'
    """
    target = urlsplit(base)
    return urlunsplit((target.scheme, target.netloc, urlsplit(url).path, "", ""))
