"""What running gangs have on nodes, kept from run to run."""

from dataclasses import replace

import numpy as np

from scoring.model import Gang
from scoring.model.snapshot import NodeTable
from scoring.plan.running_gangs import Running, RunningGangs
from tests.builders import bound, gang, node, pod

TABLE = NodeTable.of([node("n1"), node("n2")])


def runs(name: str, *nodes: str, said_s: float | None = 60.0, since_s: float | None = 5.0) -> Gang:
    members = [replace(bound(pod(f"{name}-{at}", cpu="2"), at), scheduled_s=since_s) for at in nodes]
    return replace(gang(name, members=members, min_member=len(members)), length_s=said_s)


def read(kept: RunningGangs, *gangs: Gang, stamp: object = 1) -> Running:
    return kept.read(gangs, TABLE, stamp)


def test_entries_of_all_gangs_of_known_length() -> None:
    """A gang of two nodes has two entries; one of unknown length none, and neither has one that waits."""
    waits = replace(gang("waits", 1), length_s=9.0)
    found = read(RunningGangs(), runs("a", "n1", "n2"), runs("b", "n1", said_s=None), waits, runs("c", "n2"))
    assert found.gangs == ("default/a", "default/c")
    assert (found.rows.tolist(), found.owner.tolist()) == ([0, 1, 1], [0, 0, 1])
    assert found.amounts[:, TABLE.axis.index("cpu")].tolist() == [2000, 2000, 2000]
    assert found.length_s.tolist() == [60.0] * 2


def test_an_unknown_start_is_nan() -> None:
    assert np.isnan(read(RunningGangs(), runs("a", "n1", since_s=None)).since_s).all()


def test_nothing_is_read_again_while_all_gangs_are_the_same_objects() -> None:
    kept, gangs = RunningGangs(), (runs("a", "n1"), runs("b", "n2"))
    assert read(kept, *gangs) is read(kept, *gangs)


def test_what_changed_is_read_again() -> None:
    """Another object of the same gang, a gang that is gone, other nodes."""
    kept, one = RunningGangs(), runs("b", "n2")
    read(kept, runs("a", "n1"), one)
    assert read(kept, runs("a", "n2"), one).rows.tolist() == [1, 1]
    assert read(kept, one).gangs == ("default/b",)
    first = read(kept, one, stamp=1)
    assert read(kept, one, stamp=2) is not first
