"""The ways: what schedules a workload's pods, and how the pods say so.

Why a table: a reader must see at a glance what differs between two columns. Rule: a way is made of parts that
run elsewhere too: the files that users install (scheduler-config/, the settings of manifests/), kube-scheduler as it
comes, or a program that is given. All schedulers get the same limits of their clients and score every node, but for
`none-sampled` and `volcano-sampled`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from lab.testbed.api import Object
from lab.testbed.cluster import NETGANG_SCHEDULER, SCHEDULER
from lab.testbed.objects import GangDialect, pod_group
from lab.testbed.parts import kueue_jobs, volcano
from lab.testbed.parts.native import in_group, native_group
from lab.testbed.parts.service import ROOT, SCHEDULER_CONFIG, SECOND_SCHEDULER
from lab.testbed.processes.schedulers import PLAIN, Document, load_configuration
from lab.testbed.programs.catalogue import KUBERNETES, Version

GATE = "netgang.io/gang"
DEFAULT = "default-scheduler"
OURS = "netgang"
TENANT = "all"
"""The queue of all gangs where a load has no tenants."""
_SETTINGS = ROOT / "manifests" / "overlays"
_EVERYWHERE: Document = {**PLAIN, "percentageOfNodesToScore": 100}
_TAKEN = ("scheduler_names", "extender", "hold_limit_s", "commit_timeout_s", "http_timeout_s")
"""Of an overlay's settings: those that go with its scheduler configuration; the others are about where it runs."""


class Extender(StrEnum):
    """What kube-scheduler's extender entries lead to."""

    NONE = "none"
    NETGANG = "netgang"
    ECHO = "echo"
    """A Go program that decodes the real types, passes every node and scores each alike; it does not bind."""


@dataclass(frozen=True, slots=True)
class Instance:
    """One kube-scheduler, or a program that takes the same flags."""

    name: str
    configuration: Document | Path
    account: str = SCHEDULER
    installed_gates: bool = False
    """Whether it runs with the feature gates of the installed second scheduler."""
    native_gates: bool = False
    """Whether it runs with the feature gates of Kubernetes' own gangs."""
    program: Path | None = None
    """`None`: kube-scheduler of the test bed's version."""
    volcano_percent: int | None = None
    """The share of the nodes that it looks at, if it is Volcano's scheduler; 0: as that chooses."""


@dataclass(frozen=True, slots=True)
class Way:
    """What runs, and how the pods are written for it."""

    name: str
    words: str
    schedulers: tuple[Instance, ...]
    extender: Extender = Extender.NONE
    overlay: str | None = None
    """The overlay of manifests/ whose settings netgang gets; `None`: its defaults."""
    scheduler_name: str = DEFAULT
    grouped: bool = False
    """Whether gangs are gangs; else their pods belong to nothing."""
    dialect: GangDialect = GangDialect.LABELS
    volcano: bool = False
    """Whether gangs are Volcano's, and single pods too: its scheduler looks at nothing else."""
    native: bool = False
    """Whether gangs are Kubernetes' own (`spec.schedulingGroup`)."""
    gated: bool = False
    kueue: bool = False
    """Whether pods are made by Jobs, which Kueue admits by quota before anything schedules their pods."""
    more_settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings that netgang gets beside its overlay's."""
    kubernetes: Version = KUBERNETES
    """The version of the API server, and of kube-scheduler where that is no program of a peer's."""

    @property
    def gates(self) -> tuple[str, ...]:
        """Scheduling gates of the pods of gangs."""
        return (GATE,) if self.gated else ()

    @property
    def is_netgang(self) -> bool:
        """Whether gangs go through netgang."""
        return self.extender is Extender.NETGANG and self.grouped

    def groups(self, name: str, size: int, namespace: str, *, queue: str = "") -> list[Object]:
        """The objects beside the pods that make a gang; `queue` is its tenant's, where there are tenants."""
        if self.volcano:
            return [volcano.volcano_group(name, size, namespace=namespace, queue=queue)]
        if self.native:
            return native_group(name, size, version=self.kubernetes, namespace=namespace)
        return [pod_group(name, size, namespace=namespace)] if self.dialect is GangDialect.POD_GROUP else []

    def annotations(self, name: str) -> dict[str, str]:
        """What the pods of a gang of this name are annotated with."""
        return {volcano.GROUP_ANNOTATION: name} if self.volcano else {}

    def member(self, member: Object, gang: str) -> Object:
        """The pod as this way wants it: Kubernetes' own gangs name their PodGroup."""
        return in_group(member, gang) if self.native else member

    def gang(self, name: str, members: Sequence[Object], *, queue: str = "") -> list[Object]:
        """All objects of a gang with these pods as this way wants them: groups first; with Kueue one Job."""
        namespace = members[0]["metadata"]["namespace"]
        groups = self.groups(name, len(members), namespace, queue=queue) if self.grouped else []
        pods = [self.member(one, name) if self.grouped else unlabelled(one) for one in members]
        if self.kueue:
            job = pods[0]["metadata"]["name"].rpartition("-")[0]
            return [*groups, kueue_jobs.queued_job(job, pods, queue=queue or TENANT)]
        return [*groups, *pods]

    def settings(self) -> dict[str, Any]:
        """Netgang's settings."""
        if self.overlay is None:
            return dict(self.more_settings)
        written = yaml.safe_load((_SETTINGS / self.overlay / "settings.yaml").read_text())
        return {key: value for key, value in written.items() if key in _TAKEN} | dict(self.more_settings)


def unlabelled(member: Object) -> Object:
    """The same pod as a member of nothing."""
    return {**member, "metadata": {**member["metadata"], "labels": {}}}


_PLAIN = Instance("kube-scheduler", _EVERYWHERE)
_NATIVE = Instance("kube-scheduler", _EVERYWHERE, native_gates=True)
_SECOND = Instance("netgang-scheduler", SECOND_SCHEDULER, NETGANG_SCHEDULER, installed_gates=True)


def _without_extenders(source: Path) -> Document:
    return {key: value for key, value in load_configuration(source).items() if key != "extenders"}


_ECHO: Document = {
    **_EVERYWHERE,
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1",
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "weight": 1,
            "httpTimeout": "30s",
            "nodeCacheCapable": True,
        }
    ],
}

WAYS: Mapping[str, Way] = {
    one.name: one
    for one in (
        Way("none", "kube-scheduler alone; gangs are single pods to it", (_PLAIN,)),
        Way("none-sampled", "the same with its default sampling of nodes", (Instance("kube-scheduler", PLAIN),)),
        Way("echo", "kube-scheduler with a Go extender that only echoes; no gangs",
            (Instance("kube-scheduler", _ECHO),), Extender.ECHO),
        Way("second", "netgang with a second scheduler, no gates", (_SECOND,), Extender.NETGANG,
            scheduler_name=OURS, grouped=True),
        Way("second-gated", "the same behind netgang's scheduling gate", (_SECOND,), Extender.NETGANG,
            scheduler_name=OURS, grouped=True, gated=True),
        Way("second-lengths", "netgang with a second scheduler that knows how long jobs run and keeps promised starts",
            (_SECOND,), Extender.NETGANG, scheduler_name=OURS, grouped=True,
            more_settings={"lengths": {"enabled": True}, "queue": {"backfill": {"mode": "easy"}}}),
        Way("default", "netgang in the cluster's own scheduler: every pod passes through it",
            (Instance("kube-scheduler", SCHEDULER_CONFIG / "default-scheduler.yaml"),), Extender.NETGANG,
            grouped=True, more_settings={"scheduler_names": [DEFAULT]}),
        Way("native", "Kubernetes' own gangs, admitted by netgang; kube-scheduler as it comes, without an extender",
            (_NATIVE,), Extender.NETGANG, overlay="native", grouped=True, native=True, gated=True),
        Way("native-alone", "Kubernetes' own gangs in kube-scheduler, without netgang", (_NATIVE,), grouped=True,
            native=True),
        Way("beside", "single pods through kube-scheduler, netgang and its second scheduler beside with nothing to do",
            (_SECOND, _PLAIN), Extender.NETGANG),
        Way("idle-second", "the same, that second scheduler beside without netgang",
            (replace(_SECOND, configuration=_without_extenders(SECOND_SCHEDULER)), _PLAIN)),
    )
}  # fmt: skip
"""name → way; other schedulers (`lab.bench.peers.others`) come on top"""
