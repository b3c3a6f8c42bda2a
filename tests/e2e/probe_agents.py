"""Real agents of the probe in tests: a pod for each on the real API server, a token that is bound to it, a process.

kwok has no kubelet that starts the agent: its process is ours, and the pod's address is written by hand.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.testbed.parts.service import ROOT
from lab.testbed.processes.process import Child
from tests.e2e.stage import Stage

ACCOUNT = "netgang-probe"
"""The service account of the agents, in the test's namespace; the test makes it."""


async def token_of_pod(stage: Stage, node: str, address: str) -> str:
    """Start the pod of a node's agent, give it the agent's address; a token that is bound to it."""
    name = f"agent-{node}"
    made = stage.pod(name, on=node, cpu="100m")
    made["spec"]["serviceAccountName"] = ACCOUNT
    await stage.api.create(made)

    def runs(pods: list[dict[str, Any]]) -> bool:
        return any(one["metadata"]["name"] == name and one["status"].get("podIP") for one in pods)

    await stage.until_pods(runs, f"{name} has an address", begin=name)  # kwok's, in place of a kubelet
    change: list[dict[str, Any]] = [
        {"op": "add", "path": "/status/podIP", "value": address},
        {"op": "add", "path": "/status/podIPs", "value": [{"ip": address}]},
    ]
    await stage.api.patch("Pod", name, change, namespace=stage.namespace, subresource="status")
    return await stage.token(ACCOUNT, pod=name)


def agent(node: str, address: str, token: str, folder: Path, *, url: str, within: Sequence[str] = ()) -> Child:
    """The process of a node's agent, not started; `within` is a command that runs it elsewhere."""
    token_file = folder / f"{node}.token"
    token_file.write_text(token)
    given = {"url": url, "node": node, "address": address, "token-file": str(token_file)}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    command = [*within, sys.executable, "-m", "probe", *options]
    return Child(f"agent-{node}", command, log=folder / f"{node}.log", env={"PYTHONPATH": str(ROOT)})
