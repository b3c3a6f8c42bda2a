"""The ways: what schedules a workload's pods, and how the pods say so; other schedulers (`peer`) come on top.

Rule: a way is made of parts that run elsewhere too: the files that users install (scheduler-config/), kube-scheduler as
it comes, or a program that the test bed builds. All schedulers get the same limits of their clients and score every
node, but for `none-sampled`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from lab.testbed.api import Object
from lab.testbed.cluster import ADMIN, NETGANG_SCHEDULER, SCHEDULER
from lab.testbed.objects import GangDialect, gang_pods, pod_group
from lab.testbed.parts import volcano
from lab.testbed.parts.native import in_group, native_group
from lab.testbed.parts.service import SCHEDULER_CONFIG, SECOND_SCHEDULER
from lab.testbed.processes.schedulers import PLAIN, Document, load_configuration
from lab.testbed.programs.build import ensure_program
from lab.testbed.programs.catalogue import KUBERNETES, Version

GATE = "netgang.io/gang"
DEFAULT = "default-scheduler"
OURS = "netgang"
COSCHEDULING = "coscheduling"
VOLCANO = "volcano"
PEERS: Mapping[str, tuple[str, ...]] = {COSCHEDULING: (COSCHEDULING,), VOLCANO: (volcano.PROGRAM,)}
"""peer → the programs of the test bed that it needs beside those of every way"""
_EVERYWHERE: Document = {**PLAIN, "percentageOfNodesToScore": 100}
_COSCHEDULING_CONFIG = Path(__file__).with_name("coscheduling.yaml")


class Instance(msgspec.Struct, frozen=True):
    """One kube-scheduler, or a program that takes the same flags."""

    name: str
    configuration: Document | Path
    account: str = SCHEDULER
    native_gates: bool = False
    """Whether it runs with the feature gates of Kubernetes' own gangs."""
    program: Path | None = None
    """`None`: kube-scheduler of the test bed's version."""
    volcano: bool = False
    """Whether it is Volcano's scheduler, which looks at all nodes."""


class Way(msgspec.Struct, frozen=True):
    """What runs, and how the pods are written for it."""

    name: str
    words: str
    schedulers: tuple[Instance, ...]
    netgang: bool = False
    """Whether netgang runs."""
    settings: Mapping[str, Any] = {}
    """netgang's."""
    scheduler_name: str = DEFAULT
    grouped: bool = False
    """Whether gangs are gangs; else their pods belong to nothing."""
    dialect: GangDialect = GangDialect.LABELS
    volcano: bool = False
    """Whether gangs are Volcano's, and single pods too: its scheduler looks at nothing else."""
    native: bool = False
    """Whether gangs are Kubernetes' own (`spec.schedulingGroup`)."""
    gated: bool = False
    kubernetes: Version = KUBERNETES
    """The version of the API server, and of kube-scheduler where that is no program of a peer's."""

    def groups(self, name: str, size: int, namespace: str) -> list[Object]:
        """The objects beside the pods that make a gang."""
        if self.volcano:
            return [volcano.volcano_group(name, size, namespace=namespace)]
        if self.native:
            return native_group(name, size, version=self.kubernetes, namespace=namespace)
        return [pod_group(name, size, namespace=namespace)] if self.dialect is GangDialect.POD_GROUP else []

    def members(self, name: str, size: int, namespace: str, **of_each: Any) -> list[Object]:
        """The pods of a gang of this name, as `gang_pods` makes them."""
        noted = {**({volcano.GROUP_ANNOTATION: name} if self.volcano else {}), **of_each.pop("annotations", {})}
        how: dict[str, Any] = {
            "namespace": namespace,
            "scheduler": self.scheduler_name,
            "gates": (GATE,) if self.gated else (),
        }
        return gang_pods(name, size, min_available=size, dialect=self.dialect, annotations=noted, **how, **of_each)

    def gang(self, name: str, members: Sequence[Object]) -> list[Object]:
        """All objects of a gang with these pods as this way wants them: groups first."""
        if not self.grouped:
            return [{**one, "metadata": {**one["metadata"], "labels": {}}} for one in members]
        groups = self.groups(name, len(members), members[0]["metadata"]["namespace"])
        return [*groups, *([in_group(one, name) for one in members] if self.native else members)]


_PLAIN = Instance("kube-scheduler", _EVERYWHERE)
_NATIVE = Instance("kube-scheduler", _EVERYWHERE, native_gates=True)
_SECOND = Instance("netgang-scheduler", SECOND_SCHEDULER, NETGANG_SCHEDULER)


def _without_extenders(source: Path) -> Document:
    return {key: value for key, value in load_configuration(source).items() if key != "extenders"}


_OURS = Way("second", "netgang with a second scheduler, no gates", (_SECOND,), netgang=True, scheduler_name=OURS,
            grouped=True)  # fmt: skip

WAYS: Mapping[str, Way] = {
    one.name: one
    for one in (
        Way("none", "kube-scheduler alone; gangs are single pods to it", (_PLAIN,)),
        Way("none-sampled", "the same with its default sampling of nodes", (Instance("kube-scheduler", PLAIN),)),
        _OURS,
        replace(_OURS, name="second-gated", words="the same behind netgang's scheduling gate", gated=True),
        Way("default", "netgang in the cluster's own scheduler: every pod passes through it",
            (Instance("kube-scheduler", SCHEDULER_CONFIG / "default-scheduler.yaml"),), netgang=True,
            settings={"scheduler_names": [DEFAULT]}, grouped=True),
        Way("native", "Kubernetes' own gangs, admitted by netgang; kube-scheduler as it comes, without an extender",
            (_NATIVE,), netgang=True, settings={"scheduler_names": [DEFAULT], "extender": False}, grouped=True,
            native=True, gated=True),
        Way("native-alone", "Kubernetes' own gangs in kube-scheduler, without netgang", (_NATIVE,), grouped=True,
            native=True),
        Way("beside", "single pods through kube-scheduler, netgang and its second scheduler beside with nothing to do",
            (_SECOND, _PLAIN), netgang=True),
        Way("idle-second", "the same, that second scheduler beside without netgang",
            (replace(_SECOND, configuration=_without_extenders(SECOND_SCHEDULER)), _PLAIN)),
    )
}  # fmt: skip
"""name → way"""


def peer(name: str) -> Way:
    """The way of one of `PEERS`, which the test bed builds: as its project installs it. ValueError for another name."""
    match name:
        case "coscheduling":
            program = ensure_program(COSCHEDULING)
            scheduler = Instance("coscheduling-scheduler", _COSCHEDULING_CONFIG, account=ADMIN, program=program)
            words = "the coscheduling plugin, gangs as PodGroups"
            return Way(name, words, (scheduler,), scheduler_name=COSCHEDULING, grouped=True,
                       dialect=GangDialect.POD_GROUP)  # fmt: skip
        case "volcano":
            scheduler = Instance("volcano-scheduler", PLAIN, volcano=True)
            return Way(name, "Volcano's scheduler", (scheduler,), scheduler_name=volcano.VOLCANO, grouped=True,
                       volcano=True)  # fmt: skip
        case _:
            raise ValueError(f"{name!r} is not among {', '.join(PEERS)}")
