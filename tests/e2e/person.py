"""Somebody who asks netgang with a kubeconfig of their own, and the rights that they were given."""

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.parts.service import ROOT
from lab.testbed.programs.build import ensure_program


@dataclass(frozen=True, slots=True)
class Person:
    cluster: Cluster
    namespace: str
    kubeconfig: Path
    path: Path
    kubectl: Path

    async def says(self, *command: str | Path, code: int = 0) -> str:
        """What a program prints: on standard output, or on standard error if it is to end with another code."""
        env = {
            **{name: text for name, text in os.environ.items() if not name.startswith("NETGANG_")},
            "KUBECONFIG": str(self.kubeconfig),
            "PATH": f"{self.path}:{os.environ['PATH']}",
            "COLUMNS": "160",
        }
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=env, cwd=ROOT)
        out, err = await process.communicate()
        assert process.returncode == code, (out + err).decode()
        return (err if code else out).decode()

    async def netgang(self, *arguments: str, code: int = 0) -> str:
        return await self.says(sys.executable, "-m", "cli.main", *arguments, code=code)

    async def plugin(self, *arguments: str, code: int = 0) -> str:
        return await self.says(self.kubectl, "netgang", *arguments, code=code)

    async def token(self) -> str:
        return (await self.cluster.kubectl("create", "token", "ann", "-n", self.namespace)).strip()

    async def granted(self, role: str) -> None:
        await self.cluster.kubectl(
            *("create", "rolebinding", f"ann-{role}", "-n", INSTALLED_IN, f"--role={role}"),
            f"--serviceaccount={self.namespace}:ann",
        )


async def person(cluster: Cluster, directory: Path, *, namespace: str) -> Person:
    """Ann, an account of this namespace without rights; the plugin is there as an installation has it."""
    await cluster.kubectl("create", "serviceaccount", "ann", "-n", namespace)
    ann = Person(cluster, namespace, directory / "kubeconfig", directory, ensure_program("kubectl"))
    document = yaml.safe_load(cluster.kubeconfig().read_text())
    document["users"][0]["user"] = {"token": await ann.token()}
    document["contexts"][0] |= {"name": "site"}
    document["contexts"][0]["context"]["namespace"] = namespace
    document["current-context"] = "site"
    _written(ann, yaml.safe_dump(document))
    return ann


def _written(one: Person, kubeconfig: str) -> None:
    one.kubeconfig.write_text(kubeconfig)
    program = one.path / "kubectl-netgang"
    program.write_text(f"#!{sys.executable}\nfrom cli.main import kubectl\n\nkubectl()\n")
    program.chmod(0o755)
