"""What a pod's process is to be: command, environment, user, and volumes with what is in them (for `contained`).

Rule: of a pod's fields those that charts and training jobs use; for any other volume or variable ControlPlaneError says
which it was, and the pod fails with that. Tokens are asked for once, and mounted objects are read once: neither is
renewed.
"""

import asyncio
import base64
import os
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from lab.testbed.api import Api, Object
from lab.testbed.errors import ApiRefused, ControlPlaneError

_ROOT = Path(__file__).parents[3]
_PAUSE = ("sleep", "infinity")
_AGAIN_S = 0.5


class Place(msgspec.Struct, frozen=True):
    """Where a pod runs: the network namespace (in /run/netns), its address, and the address of the node."""

    network: str
    address: str
    host: str


class Nodes(Protocol):
    """Nodes of which each can give pods a place."""

    @property
    def places(self) -> Mapping[str, Place]:
        """Node → where its pods with `hostNetwork` run."""

    def pod_place(self, node: str) -> AbstractContextManager[Place]:
        """A place for one more pod, until the end of the block. Blocks: for a thread."""


class Image(msgspec.Struct, frozen=True):
    """What stands for an image: its entry point and command (without both a pod waits for its end), its environment.

    With modules that are `loaded`, commands that begin with `python -m` are forked from a process that has these.
    """

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    loaded: tuple[str, ...] = ()


class PodProcesses(msgspec.Struct, frozen=True):
    """How pods of a cluster begin: images by name without the tag, and what all of them are told."""

    api: Api
    images: Mapping[str, Image]
    env: Mapping[str, str]
    """Such as where the API server is"""
    hosts: Path | None
    """Their /etc/hosts"""

    async def prepare(self, pod: Object, place: Place, folder: Path) -> dict[str, Any]:
        """What `contained` is to do, with the files of volumes in the folder. Waits until what is mounted exists."""
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        made = {one["name"]: await self._volume(pod, one, place, folder) for one in spec.get("volumes", [])}
        volumes = [
            (str(made[one["name"]] / one.get("subPath", "")), one["mountPath"], one.get("readOnly", False))
            for one in container.get("volumeMounts", [])
        ]
        if self.hosts is not None:
            # Without a name server a name that is not in hosts fails at once, and with one of the machine after seconds
            volumes += [(str(self.hosts), "/etc/hosts", True), ("/dev/null", "/etc/resolv.conf", True)]
        image = self.images.get(container.get("image", "").rpartition(":")[0], Image())
        env = {"PATH": os.environ["PATH"], "HOSTNAME": pod["metadata"]["name"], **image.env, **self.env}
        for one in container.get("env", []):
            env[one["name"]] = expanded(_value(pod, one, place), env)
        own = container.get("command")
        command = (*(own or image.entrypoint), *(container.get("args") or (() if own else image.command)))
        rights = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        searched = [str(path.resolve()) for path in map(Path, env["PATH"].split(":")) if path.is_dir()]
        return {
            "command": [expanded(word, env) for word in command or _PAUSE],
            "env": env,
            "loaded": image.loaded,
            "directory": container.get("workingDir", "/"),
            "network": place.network,
            "programs": sorted({str(_ROOT), sys.prefix, sys.base_prefix, *searched}),
            "volumes": volumes,
            "read_only": rights.get("readOnlyRootFilesystem", False),
            "user": rights.get("runAsUser"),
            "group": rights.get("runAsGroup", 0),
            "fs_group": rights.get("fsGroup"),
            "parent": os.getpid(),
        }

    async def _volume(self, pod: Object, volume: Object, place: Place, folder: Path) -> Path:
        """The folder that is to be mounted."""
        if "hostPath" in volume:
            return Path(volume["hostPath"]["path"])
        found: dict[str, bytes] = {}
        if "emptyDir" not in volume:
            for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
                found |= await self._files(pod, source, place)
        target = folder / "volumes" / str(volume["name"])
        target.mkdir(parents=True, mode=0o755)
        target.chmod(0o1777 if "emptyDir" in volume else 0o755)
        for name, content in found.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes(content)
        return target

    async def _files(self, pod: Object, source: Object, place: Place) -> dict[str, bytes]:
        """File → content, of a volume or of one source of a projected one."""
        if asked := source.get("serviceAccountToken"):
            return {asked["path"]: await self._token(pod, asked)}
        if fields := source.get("downwardAPI"):
            return {one["path"]: field(pod, one["fieldRef"]["fieldPath"], place).encode() for one in fields["items"]}
        kind = "Secret" if "secret" in source else "ConfigMap"
        chosen = source.get("secret") or source.get("configMap")
        if chosen is None:
            raise ControlPlaneError(f"a volume that no stand-in for a kubelet can mount: {', '.join(source)}")
        data = await self._data(kind, chosen.get("secretName") or chosen["name"], pod, chosen.get("optional", False))
        texts = {key: base64.b64decode(text) if kind == "Secret" else text.encode() for key, text in data.items()}
        return {one["path"]: texts[one["key"]] for one in chosen["items"]} if "items" in chosen else texts

    async def _data(self, kind: str, name: str, pod: Object, optional: bool) -> dict[str, str]:
        while True:
            try:
                found = await self.api.get(kind, name, namespace=pod["metadata"]["namespace"])
            except ApiRefused as refused:
                if refused.status != 404:
                    raise
            else:
                return found.get("data") or {}
            if optional:
                return {}
            await asyncio.sleep(_AGAIN_S)

    async def _token(self, pod: Object, asked: Object) -> bytes:
        meta, account = pod["metadata"], pod["spec"].get("serviceAccountName", "default")
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        spec = {"boundObjectRef": bound, "expirationSeconds": asked.get("expirationSeconds", 3600)}
        spec |= {"audiences": [asked["audience"]]} if "audience" in asked else {}
        path = f"/api/v1/namespaces/{meta['namespace']}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self.api.request("POST", path, body=body))["status"]["token"]).encode()


def _value(pod: Object, one: Object, place: Place) -> str:
    if "valueFrom" not in one:
        return str(one.get("value", ""))
    if "fieldRef" not in one["valueFrom"]:
        raise ControlPlaneError(f"env {one['name']}: a stand-in for a kubelet knows value and fieldRef")
    return field(pod, one["valueFrom"]["fieldRef"]["fieldPath"], place)


def field(pod: Object, path: str, place: Place) -> str:
    """What the downward API says.

    >>> field({"metadata": {"labels": {"a/b": "c"}}}, "metadata.labels['a/b']", Place("", "", ""))
    'c'
    """
    if path in ("status.podIP", "status.podIPs"):
        return place.address
    if path == "status.hostIP":
        return place.host
    if named := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(pod["metadata"].get(named[1], {}).get(named[2], ""))
    section, _, name = path.partition(".")
    return str(pod[section].get(name, ""))


def port_of(pod: Object, asked: str | int) -> int:
    """A port that is named or numbered."""
    named = {one.get("name"): one["containerPort"] for one in pod["spec"]["containers"][0].get("ports", [])}
    return int(named.get(asked) or asked)


def expanded(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where the variable is known; `$$(NAME)` stays, without the first dollar.

    >>> expanded("$(A)-$(B)-$$(A)", {"A": "x"})
    'x-$(B)-$(A)'
    """
    return re.sub(r"(\$?)\$\(([^()]+)\)", lambda at: at[0][1:] if at[1] else env.get(at[2], at[0]), text)
