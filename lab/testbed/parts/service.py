"""Run netgang and its kube-scheduler as parts of the cluster: what users install, not our classes.

Why: only the real process with the installed files shows whether settings, rights, readiness and shutdown work.
Rule: netgang is started through its command line with its settings in a file, unless it gets other limits; rights,
scheduler configuration and scheduler flags are read from manifests/ and scheduler-config/, and both run as the service
accounts named there.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from extender.signed_notes import KEY_FILE
from lab.testbed.cluster import INSTALLED_IN, NETGANG, NETGANG_SCHEDULER, Cluster
from lab.testbed.netgang import split
from lab.testbed.objects import namespace
from lab.testbed.parts.installed import installed_rights
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child

ROOT = Path(__file__).parents[3]
SCHEDULER_CONFIG = ROOT / "scheduler-config"
SECOND_SCHEDULER = SCHEDULER_CONFIG / "second-scheduler.yaml"
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_START_LIMIT_S = 60.0  # it takes about 3 s; a loaded machine with two cores took 10


class Netgang(msgspec.Struct, frozen=True):
    """A running netgang: its part of the cluster, the base URL of the verbs, and that of its port for people."""

    part: Child
    url: str
    debug_url: str


async def start_netgang(
    cluster: Cluster,
    settings: Mapping[str, Any] | None = None,
    *,
    name: str = "netgang",
    account: str = NETGANG,
    port: int | None = None,
    env: Mapping[str, str] | None = None,
    kubeconfig: Path | None = None,
    tls: bool = False,
) -> Netgang:
    """Start `netgang serve` against the cluster and wait until /readyz answers 200.

    `settings` become its `--config` file, `env` comes on top of our environment, `account` decides its rights: by
    default those of its service account, which `install_rights` grants; `kubeconfig` takes its place. With `tls` the
    settings have certificates, and the probes a port of their own. With limits among the `settings` it is
    `lab.testbed.netgang` that serves. Stops with the cluster.
    """
    first, second, health_port = free_ports(3)
    chosen = port if port is not None else first
    debug_port = second if second != port else first
    program = "lab.testbed.netgang" if split(settings or {})[1] else "cli.main"
    env = {"OPENBLAS_NUM_THREADS": "1", **(env or {})}  # as the command line has it
    access = f"--kubeconfig={kubeconfig or cluster.kubeconfig(account)}"
    argv = [sys.executable, "-m", program, "serve", access, f"--port={chosen}", f"--debug-port={debug_port}"]
    file = cluster.directory / f"{name}-settings.yaml"
    keys = cluster.directory / "note-keys"  # of all netgangs of a cluster; elsewhere it is a mounted Secret
    keys.mkdir(exist_ok=True)
    (keys / KEY_FILE).write_bytes(b"the same for all of the test bed")
    settings = {"note_keys_dir": str(keys), **(settings or {}), "host": LOOPBACK}
    settings |= {"health_port": health_port} if tls else {}
    file.write_text(yaml.safe_dump(settings, sort_keys=False))
    argv.append(f"--config={file}")
    url = f"{'https' if tls else 'http'}://{LOOPBACK}:{chosen}"
    ready = f"http://{LOOPBACK}:{health_port}" if tls else url
    part = await cluster.start_part(name, argv, ready_url=f"{ready}/readyz", env=env, limit_s=_START_LIMIT_S)
    return Netgang(part=part, url=url, debug_url=f"http://{LOOPBACK}:{debug_port}")


async def install_rights(cluster: Cluster) -> None:
    """Apply the namespace, accounts, roles, bindings and the account's confinement for netgang and its scheduler."""
    async with cluster.api() as api:
        await api.apply([{**namespace(INSTALLED_IN), "metadata": {"name": INSTALLED_IN, "labels": _RESTRICTED}}])
        await api.apply(installed_rights())


async def start_second_scheduler(cluster: Cluster, url: str) -> Child:
    """Start the kube-scheduler for pods with `schedulerName: netgang`, as manifests/second-scheduler.yaml does.

    `url` is that of netgang's verbs, where it need not be yet: it is called for pods only.
    """
    own = NETGANG_SCHEDULER
    return await cluster.start_scheduler(SECOND_SCHEDULER, name=own, extender=url, account=own)
