"""The other schedulers that take part: those that the test bed builds, and any that is given on the command line.

Rule: each runs as its project installs it, with the limits of its clients raised like kube-scheduler's. Kueue schedules
no pods: above it stands which scheduler places what it has admitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.bench.peers.ways import DEFAULT, WAYS, Instance, Way
from lab.testbed.cluster import ADMIN
from lab.testbed.objects import GangDialect
from lab.testbed.parts import kueue, volcano
from lab.testbed.processes.schedulers import PLAIN, load_configuration
from lab.testbed.programs.build import ensure_program

COSCHEDULING = "coscheduling"
VOLCANO = "volcano"
VOLCANO_SAMPLED = "volcano-sampled"
KUEUE = "kueue"
KUEUE_SECOND = "kueue-second"
_KUEUES = (kueue.KUEUE, "kube-controller-manager", "kubectl")
PEERS: Mapping[str, tuple[str, ...]] = {
    COSCHEDULING: (COSCHEDULING,),
    VOLCANO: (volcano.PROGRAM,),
    VOLCANO_SAMPLED: (volcano.PROGRAM,),
    KUEUE: _KUEUES,
    KUEUE_SECOND: _KUEUES,
}
"""peer → the programs of the test bed that it needs beside those of every way"""
COSCHEDULING_CONFIG = Path(__file__).with_name("coscheduling.yaml")


def peer(text: str) -> Way:
    """A way for `NAME=BINARY,CONFIG`, or for one of `PEERS`, which the test bed builds. ValueError says what is wrong.

    BINARY takes kube-scheduler's flags, CONFIG is a KubeSchedulerConfiguration. Its pods carry the name of the first
    profile and the label of a PodGroup of scheduling.x-k8s.io, which is created before them.
    """
    if text == COSCHEDULING:
        return _peer(COSCHEDULING, ensure_program(COSCHEDULING), COSCHEDULING_CONFIG)
    if text in (VOLCANO, VOLCANO_SAMPLED):
        return _volcano(text)
    if text == KUEUE:
        words = "Kueue admits Jobs by quota, kube-scheduler places their pods"
        return replace(WAYS["none"], name=text, words=words, kueue=True)
    if text == KUEUE_SECOND:
        words = "Kueue admits Jobs by quota, netgang with a second scheduler places their pods"
        return replace(WAYS["second"], name=text, words=words, kueue=True)
    name, equals, rest = text.partition("=")
    binary, comma, config = rest.partition(",")
    if not (name and equals and binary and comma and config):
        raise ValueError(f"{text!r} is neither NAME=BINARY,CONFIG nor among {', '.join(PEERS)}")
    if name in WAYS or name in PEERS:
        raise ValueError(f"{name!r} is a way already: give the peer another name")
    for path in (Path(binary), Path(config)):
        if not path.is_file():
            raise ValueError(f"{path} of peer {name!r} is not a file")
    return _peer(name, Path(binary).resolve(), Path(config))


def _peer(name: str, program: Path, config: Path) -> Way:
    profiles: Sequence[Mapping[str, Any]] = load_configuration(config).get("profiles") or [{}]
    instance = Instance(f"{name}-scheduler", config, account=ADMIN, program=program)
    return Way(
        name,
        f"the scheduler {program.name}, gangs as PodGroups",
        (instance,),
        scheduler_name=str(profiles[0].get("schedulerName", DEFAULT)),
        grouped=True,
        dialect=GangDialect.POD_GROUP,
    )


def _volcano(name: str) -> Way:
    sampled = name == VOLCANO_SAMPLED
    return Way(
        name,
        "Volcano's scheduler with its default sampling of nodes" if sampled else "Volcano's scheduler",
        (Instance("volcano-scheduler", PLAIN, volcano_percent=0 if sampled else 100),),
        scheduler_name=volcano.VOLCANO,
        grouped=True,
        volcano=True,
    )
