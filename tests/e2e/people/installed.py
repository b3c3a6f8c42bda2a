"""What is installed, run by hand: there is no kubelet."""

from collections.abc import Mapping
from typing import Any

import yaml

from lab.testbed.api import Api
from lab.testbed.cluster import INSTALLED_IN, NETGANG_SCHEDULER, Cluster
from lab.testbed.parts.service import Netgang, start_netgang


async def mounted(api: Api, name: str, key: str) -> str:
    """A file of the ConfigMap that is mounted."""
    return str((await api.get("ConfigMap", name, namespace=INSTALLED_IN))["data"][key])


async def run_installed(
    cluster: Cluster, api: Api, own: Mapping[str, str], more: Mapping[str, Any] | None = None
) -> Netgang:
    """The commands of both Deployments with what is mounted into them; `own`: environment, `more`: settings on top."""
    settings = yaml.safe_load(await mounted(api, "netgang", "netgang.yaml")) | dict(more or {})
    running = await start_netgang(cluster, settings, env=own)
    config = yaml.safe_load(await mounted(api, "netgang-scheduler-config", "scheduler.yaml"))
    await cluster.start_scheduler(config, name=NETGANG_SCHEDULER, extender=running.url, account=NETGANG_SCHEDULER)
    return running
