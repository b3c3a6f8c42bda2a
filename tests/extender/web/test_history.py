"""What the page keeps over time is bounded, and says what it should of the past."""

import msgspec
import pytest

from extender.schemas.queue import Queue
from extender.web.link_history import MOST_LINKS, MOST_LOOKS, LinkHistory
from extender.web.node_map import MOST_NODES, OTHERS, UNUSABLE, nodes_section, use_in_steps
from extender.web.teams import MOST_TEAMS, TeamHistory
from scoring.ids import NodeName
from scoring.network.matrix import Metric
from scoring.plan.steps import Steps, finish
from tests.builders import gang, mesh, node, pod, snapshot
from tests.extender.api.queued import EMPTY, entry
from tests.fakes.clock import FakeClock


def test_a_link_is_followed_and_the_oldest_look_goes() -> None:
    clock = FakeClock()
    history = LinkHistory(lambda: snapshot([]), clock)
    network = mesh(["n0", "n1"])
    for look in range(MOST_LOOKS + 5):
        clock.advance(60.0)
        network = mesh(["n0", "n1"], delay_ms=1.0 + look)
        finish(history.add(network, clock.now_s()))
    looks = history.of(network, NodeName("n0"), NodeName("n1"), Metric.DELAY)
    assert [value for _, value in looks] == [1.0 + look for look in range(5, MOST_LOOKS + 5)]
    assert history.of(network, NodeName("n0"), NodeName("n9"), Metric.DELAY) == []


def test_a_bad_link_takes_the_place_of_a_good_one() -> None:
    """With more links than are kept, one that turns bad is followed from then on."""
    names = [f"n{i}" for i in range(60)]
    assert len(names) * (len(names) - 1) > MOST_LINKS
    history = LinkHistory(lambda: snapshot([]), FakeClock())
    finish(history.add(mesh(names), 1.0))
    turned = mesh(names, bad={"n59": {"loss_ratio": 0.5}})
    finish(history.add(turned, 2.0))
    looks = history.of(turned, NodeName("n0"), NodeName("n59"), Metric.LOSS)
    assert looks[-1][1] == 0.5


def test_nodes_are_coloured_by_gang_and_cut() -> None:
    nodes = [node("n0"), node("n1", unschedulable=True), node("n2"), *(node(f"z{i}") for i in range(MOST_NODES))]
    other = pod("other", cpu="4", node="n2")
    made = finish(use_in_steps(snapshot(nodes, [gang("g", 2, node="n0")], pods=[other])))
    assert len(made["cells"]) == MOST_NODES
    names = [name for _, of_zone in nodes_section(snapshot(nodes))["zones"] for name in of_zone]
    by_name = dict(zip(names, made["cells"], strict=True))
    assert [by_name.get(name) for name in ("n0", "n1", "n2")] == [0, UNUSABLE, OTHERS]


def steps_of(queue: Queue) -> Steps[Queue]:
    yield from ()
    return queue


@pytest.mark.parametrize("many", [1, MOST_TEAMS + 10])
def test_namespaces_that_wait_longest_come_first(many: int) -> None:
    gangs = [entry(gang=f"t{i}/g", state="WAITING", waiting_since_s=1000.0 - i) for i in range(many)]
    queue = msgspec.convert(EMPTY | {"gangs": gangs}, Queue)
    history = TeamHistory(lambda: steps_of(queue), lambda: snapshot([node("n0")]), FakeClock(2000.0))
    teams = finish(history.teams_in_steps(queue, snapshot([node("n0")])))
    assert len(teams) == min(many, MOST_TEAMS)
    assert next(iter(teams)) == f"t{many - 1}"
    finish(history.add(queue, snapshot([node("n0")])))
    [*_, (_, look)] = history.looks
    assert look[next(iter(teams))] == (1000.0 + many - 1, 0)


def test_what_a_namespace_has_follows_its_gangs() -> None:
    gangs = [entry(gang=f"{namespace}/g", state="RUNNING", waiting_since_s=None) for namespace in ("a", "b")]
    queue = msgspec.convert(EMPTY | {"gangs": gangs}, Queue)
    history = TeamHistory(lambda: steps_of(queue), lambda: snapshot([]), FakeClock())
    one, two, more = (
        gang("g", size, cpu="2", node="n0", namespace=name) for size, name in ((1, "a"), (2, "b"), (3, "b"))
    )
    for members, want in (
        ([one, two], {"a": 2000, "b": 4000}),
        ([one, more], {"a": 2000, "b": 6000}),
        ([one], {"a": 2000, "b": 0}),
    ):
        teams = finish(history.teams_in_steps(queue, snapshot([node("n0", cpu="64")], members)))
        assert {name: team.has for name, team in teams.items()} == want
