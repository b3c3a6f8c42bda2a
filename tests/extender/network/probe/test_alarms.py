"""From reports to an announcement, in virtual time: a bad node is announced and ends, a late agent never is."""

from scoring.ids import EndpointId
from scoring.network.matrix import NetworkMatrix
from scoring.network.measurement import METRICS
from scoring.network.node_links import AlarmState, Subject, SubjectKind, degraded, links_of, step
from tests.extender.network.probe.probing import DEAD, GOOD, Mesh

NODES = ("n1", "n2", "n3", "n4", "n5", "n6")
LOSSY = {**GOOD, "lost": 1, "lost_out": 1, "lost_back": 0}  # 2 %
ROUND_S = 10.0


class Watched:
    """A mesh, and what is announced about it after each table."""

    def __init__(self) -> None:
        self.mesh = Mesh(*NODES)
        self.states: dict[Subject, AlarmState] = {}
        self.announced: list[tuple[float, Subject, bool]] = []  # When, about what, whether as bad

    async def rounds(self, count: int) -> None:
        for _ in range(count):
            await self.mesh.rounds(1, seconds=ROUND_S)
            now_s, source = self.mesh.clock.now_s(), self.mesh.source
            ends = {metric: {node: EndpointId(node) for node in self.mesh.zones} for metric in METRICS}
            matrix = NetworkMatrix.merged({"probe": source.table}, endpoint_of=ends, now_s=now_s)
            look = degraded(links_of(matrix, self.mesh.zones))
            self.states, alarms = step(self.states, look, now_s=now_s)
            self.announced += [(now_s, one.about, bool(one.degraded)) for one in alarms]

    def all_links_of(self, node: str, counts: dict[str, object]) -> None:
        pairs = [pair for one in NODES if one != node for pair in ((node, one), (one, node))]
        self.mesh.faults = dict.fromkeys(pairs, counts)


async def test_a_bad_node_is_announced_within_three_minutes_and_when_it_is_good_again() -> None:
    watched = Watched()
    await watched.rounds(12)
    began_s = watched.mesh.clock.now_s()
    watched.all_links_of("n2", {**LOSSY})
    await watched.rounds(70)
    node = Subject(SubjectKind.NODE, "n2")
    [(bad_s, about, bad)] = watched.announced
    assert (about, bad) == (node, True)
    assert bad_s - began_s <= 180.0
    watched.mesh.faults = {}
    ended_s = watched.mesh.clock.now_s()
    await watched.rounds(60)
    good_s, about, bad = watched.announced[-1]
    assert (about, bad, len(watched.announced)) == (node, False, 2)
    assert good_s - ended_s <= 420.0, "the loss fades for some minutes, and is good for two"


async def test_an_agent_that_is_late_is_never_announced() -> None:
    """Held to 1 % of a core: its packets are suspect, and it answers nobody's."""
    watched = Watched()
    await watched.rounds(12)
    watched.mesh.suspect = {"n2": 40}
    watched.mesh.faults = {(one, "n2"): DEAD for one in NODES if one != "n2"}
    await watched.rounds(60)
    assert watched.announced == []
