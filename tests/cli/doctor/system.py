"""A system as it should be, as facts; tests change one thing at a time."""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from cli.doctor.facts import Endpoints, Facts, LeaseSeen, Policies, Replica, Running, ServiceAddress
from cli.doctor.installation import CONFINING
from extender.settings.settings import Settings
from extender.settings.times import LeaderElection
from tests.builders import node

ROOT = Path(__file__).parents[3]
SETTINGS = Settings(leader_election=LeaderElection.ON)
SERVICE = ServiceAddress("netgang", "netgang-system", 8888, "10.96.0.88")
Change = Callable[[dict[str, Any]], object]


@cache
def _read(path: str) -> tuple[dict[str, Any], ...]:
    return tuple(yaml.safe_load_all((ROOT / path).read_text()))


def policies() -> Policies:
    found: dict[str, dict[str, Any]] = {"MutatingAdmissionPolicy": {}, "MutatingAdmissionPolicyBinding": {}}
    for one in deepcopy(_read("tests/fixtures/rendered/gates.yaml")):
        found[one["kind"]][one["metadata"]["name"]] = one
    return Policies(policies=found["MutatingAdmissionPolicy"], bindings=found["MutatingAdmissionPolicyBinding"])


def configuration(name: str = "second-scheduler") -> dict[str, Any]:
    (found,) = deepcopy(_read(f"scheduler-config/{name}.yaml"))
    return found


def running() -> Running:
    both = (Replica("netgang-0", ready=True, role="leader"), Replica("netgang-1", ready=True))
    lease = LeaseSeen("netgang-0_x", renewed=True)
    return Running(2, both, lease)


def system() -> Facts:
    return Facts(
        settings=SETTINGS,
        settings_from="ConfigMap netgang-system/netgang",
        account="system:serviceaccount:netgang-system:netgang",
        kubernetes="1.36.3",
        denied=(),
        scheduler=configuration(),
        scheduler_from="ConfigMap netgang-system/netgang-scheduler-config",
        scheduler_version="1.36.1",
        service=SERVICE,
        policies=policies(),
        confined=frozenset(CONFINING),
        running=running(),
        nodes=(node("n1"), node("n2", zone="b")),
        gated=("default/w-1",),
        sources={"maddash": None},
        endpoints=Endpoints({"loss": {"mapped": 2, "unmapped": 0, "ambiguous": 0}}),
    )


def with_scheduler(change: Change) -> Callable[[Facts], Facts]:
    def changed(facts: Facts) -> Facts:
        config = configuration()
        change(config)
        return replace(facts, scheduler=config)

    return changed


def with_policy(kind: str, change: Change) -> Callable[[Facts], Facts]:
    """With another policy of the gate, or another binding of it (`kind`)."""

    def changed(facts: Facts) -> Facts:
        seen = policies()
        change(getattr(seen, kind))
        return replace(facts, policies=seen)

    return changed
