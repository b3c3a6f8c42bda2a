"""Gangs of Kubernetes' own, as tests create them."""

from typing import Any

from lab.testbed.api import Object
from lab.testbed.parts.native import in_group, native_group
from tests.e2e.objects import OURS
from tests.e2e.stage import Stage


async def create_group(stage: Stage, name: str, count: int, *, topology: str = "", **more: Any) -> None:
    """As the Job controller would make them."""
    if topology:
        more["schedulingConstraints"] = {"topology": [{"key": topology}]}
    for one in native_group(name, count, version=stage.cluster.version, namespace=stage.namespace, **more):
        await stage.api.create(one)


async def create_members(stage: Stage, name: str, count: int, *, first: int = 0, **fields: Any) -> list[Object]:
    fields = {"scheduler": OURS, **fields}
    numbers = range(first, first + count)
    return await stage.api.create_all(in_group(stage.pod(f"{name}-{number}", **fields), name) for number in numbers)
