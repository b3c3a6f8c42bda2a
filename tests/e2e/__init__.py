"""Tests on a real control plane; see conftest.py for how they are selected and isolated.

The types of the fixtures that are functions are here, because a conftest is not for importing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from testbed.parts.service import Netgang
from testbed.processes.process import Child

AddNodes: TypeAlias = Callable[..., Awaitable[None]]
"""Fixture `add_nodes`: takes node objects."""
StartScheduler: TypeAlias = Callable[..., Awaitable[Child]]
"""Fixture `start_scheduler`: takes what `Cluster.start_scheduler` takes."""
StartNetgang: TypeAlias = Callable[..., Awaitable[Netgang]]
"""Fixture `netgang`: takes what `start_netgang` takes after the cluster."""
StartSecondScheduler: TypeAlias = Callable[..., Awaitable[Child]]
"""Fixture `second_scheduler`: takes what `start_second_scheduler` takes after the cluster."""
