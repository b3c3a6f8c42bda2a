"""Which gangs ask an autoscaler for nodes: who, for what, where, how often; and when a request is taken back."""

from dataclasses import replace

import pytest

from scoring.ids import GangKey, NodeName, gang_key
from scoring.model import Gang, Node, NodeSelectorTerm, Pod, Requirement, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, plan
from scoring.provisioning.decide import Hindrance, fingerprint_of, hindrance_of, steps_of
from scoring.provisioning.requests import AskingLimits, Create, Delete, Outcome, Request, Step
from tests.builders import bound, gang, node, pod, snapshot

POLICY = Policy()
LIMITS = AskingLimits()
NOW_S = 1_000.0


def planned(cluster: Snapshot, *, now_s: float = NOW_S) -> Plan:
    return plan(cluster, POLICY, now_s=now_s)


def steps(
    cluster: Snapshot,
    *requests: Request,
    now_s: float = NOW_S,
    limits: AskingLimits = LIMITS,
    besides: frozenset[GangKey] = frozenset(),
) -> tuple[Step, ...]:
    made = planned(cluster, now_s=now_s)
    return steps_of(cluster, made, POLICY, requests, limits=limits, now_s=now_s, besides=besides)


def asked(found: tuple[Step, ...]) -> Create:
    (step,) = found
    assert isinstance(step, Create)
    return step


def made_of(step: Create) -> Request:
    name = f"r-{step.gang}-{step.attempt}"
    return Request(name, step.gang, step.fingerprint, step.attempt, len(step.sets), step.zones, since_s=NOW_S)


def request_of(cluster: Snapshot, **fields: object) -> Request:
    return replace(made_of(asked(steps(cluster))), **fields)  # type: ignore[arg-type]


ONE = node("n1", cpu="2")
TOO_MANY = gang("g", 4)


def test_the_whole_minimum_is_asked_for_at_once() -> None:
    """All members that are needed and have no node, of each kind how many; those beyond the minimum are not."""
    ps = pod("g-ps", gang="g", role=Role.PS, cpu="4")
    workers = [pod(f"g-w{i}", gang="g", role=Role.WORKER, index=i) for i in range(5)]
    step = asked(steps(snapshot([ONE], [gang("g", members=[ps, *workers], min_member=4)])))
    assert sorted((one[0].name, len(one)) for one in step.sets) == [("g-ps", 1), ("g-w0", 3)]
    assert (step.gang, step.attempt, step.zones) == ("default/g", 1, ("a",))


PINNED = replace(pod("g-0", gang="g", affinity=(NodeSelectorTerm(),)), admitted_to=NodeName("n1"))
WHO: dict[str, tuple[bool, list[Node], Gang]] = {  # case: (whether it asks, nodes, gang)
    "no room now": (True, [node("n1", cpu="8")], gang("g", 9)),
    "it would not fit the empty cluster": (True, [ONE], TOO_MANY),
    "no nodes at all": (True, [], TOO_MANY),
    "its zone has no nodes yet": (True, [ONE], gang("g", 2, options={"zones": "z"})),
    "it fits": (False, [ONE], gang("g", 2)),
    "it waits for pods": (False, [ONE], gang("g", 4, min_member=5)),
    "others have gates on it": (False, [ONE], gang("g", 4, gates=("example.org/quota",))),
    "our own gate": (True, [ONE], gang("g", 4, gates=("netgang.io/gang",))),
    "another scheduler's": (False, [ONE], replace(TOO_MANY, own=False)),
    "its gate was opened for nodes that exist": (False, [ONE], gang("g", members=[PINNED, *gang("g", 4).members[1:]])),
    "nodes without zones": (False, [node("n1", zone="", cpu="2")], TOO_MANY),
    "it may be spread, and there are no zones": (True, [node("n1", zone="", cpu="2")],
        gang("g", 4, options={"zone-policy": "preferred"})),
    "more kinds than a request may have": (False, [ONE],
        gang("g", members=[pod(f"g-{i}", gang="g", cpu=str(i + 1)) for i in range(33)])),
}  # fmt: skip


@pytest.mark.parametrize(("asks", "nodes", "one"), WHO.values(), ids=WHO)
def test_who_asks(asks: bool, nodes: list[Node], one: Gang) -> None:
    """Whoever waits for room, and could use any that comes."""
    assert asks == bool(steps(snapshot(nodes, [one])))


HINDERED = {  # case of WHO: why it does not ask although it waits for room
    "its gate was opened for nodes that exist": Hindrance.GATES_OPENED,
    "nodes without zones": Hindrance.NO_ZONES,
    "more kinds than a request may have": Hindrance.KINDS,
}


def test_why_a_gang_that_needs_room_does_not_ask() -> None:
    """For its explanation; no hindrance where it asks, or waits for something else."""
    for case, (_, nodes, one) in WHO.items():
        cluster = snapshot(nodes, [one])
        assert hindrance_of(cluster, planned(cluster), POLICY, one.key) is HINDERED.get(case), case


def test_a_gang_waits_before_it_asks() -> None:
    """From the moment when its pods were enough."""
    cluster = snapshot([ONE], [gang("g", 4, created_s=0.0)])
    assert steps(cluster, now_s=29.0) == ()
    assert len(steps(cluster, now_s=30.0)) == 1


WHERE = {  # case: (options, zone of a member that runs, zones asked for by attempts 1, 2 and 3)
    "most room first": ({}, None, ["b", "a", "b"]),
    "as the gang says": ({"zones": "z,a"}, None, ["z", "a", "z"]),
    "where members run": ({}, "a", ["a", "a", "a"]),
    "anywhere": ({"zone-policy": "preferred"}, None, ["", "", ""]),
    "in some of them": ({"zone-policy": "preferred", "zones": "z,a"}, None, ["z,a", "z,a", "z,a"]),
}


@pytest.mark.parametrize(("options", "runs_in", "zones"), WHERE.values(), ids=WHERE)
def test_one_zone_at_a_time(options: dict[str, str], runs_in: str | None, zones: list[str]) -> None:
    """A gang that must be in one zone asks for one, and for the next one when that was refused."""
    nodes = [node("a1", zone="a", cpu="2"), node("b1", zone="b", cpu="3")]
    members = list(gang("g", 6).members)
    if runs_in is not None:
        members[0] = bound(members[0], f"{runs_in}1")
    cluster = snapshot(nodes, [gang("g", members=members, options=options)])
    found: list[str] = []
    before: tuple[Request, ...] = ()
    for attempt in (1, 2, 3):
        step, *_ = steps(cluster, *before, now_s=1e6)
        assert isinstance(step, Create)
        assert step.attempt == attempt
        found.append(",".join(step.zones))
        before = (replace(made_of(step), outcome=Outcome.FAILED),)
    assert found == zones


def test_few_at_a_time_the_first_of_the_queue_first() -> None:
    """One new request in a round, and never more than there may be."""
    gangs = [gang(f"g{i}", 4, priority=-i) for i in range(5)]
    cluster, made = snapshot([ONE], gangs), list[Request]()
    for _ in range(5):
        found = steps(cluster, *made, limits=AskingLimits(most=3))
        made += [made_of(step) for step in found if isinstance(step, Create)]
        assert len(found) <= 1
    assert [str(one.gang) for one in made] == ["default/g0", "default/g1", "default/g2"]


def test_a_gang_that_is_left_alone_does_not_ask() -> None:
    cluster = snapshot([ONE], [gang("g0", 4, priority=1), gang("g1", 4)])
    assert asked(steps(cluster, besides=frozenset({gang_key("default", "g0")}))).gang == "default/g1"


@pytest.mark.parametrize("outcome", Outcome)
def test_what_follows_from_an_answer(outcome: Outcome) -> None:
    """The third request that came to nothing is left to be seen for four minutes, then the fourth takes its place."""
    cluster = snapshot([ONE], [TOO_MANY])
    third = request_of(cluster, attempt=3, outcome=outcome, since_s=NOW_S)
    if outcome in (Outcome.ASKED, Outcome.ACCEPTED, Outcome.PROVISIONED):
        assert steps(cluster, third, now_s=NOW_S + 1e6) == ()
        return
    assert steps(cluster, third, now_s=NOW_S + 239.0) == ()
    new, old = steps(cluster, third, now_s=NOW_S + 240.0)
    assert isinstance(new, Create)
    assert (new.attempt, old) == (4, Delete(third, "attempt 4 takes its place"))


def test_the_room_for_requests_is_that_of_its_gang() -> None:
    """A second attempt needs no room besides that of the first, so a full house goes on trying."""
    cluster = snapshot([ONE], [gang("g0", 4, priority=1), gang("g1", 4)])
    failed = request_of(cluster, outcome=Outcome.FAILED, since_s=0.0)
    new, old = steps(cluster, failed, limits=AskingLimits(most=1))
    assert isinstance(new, Create)
    assert (new.gang, new.attempt, old) == ("default/g0", 2, Delete(failed, "attempt 2 takes its place"))


def waiting_members(count: int = 4) -> tuple[Pod, ...]:
    return gang("g", count).members


BEFORE = snapshot([ONE], [TOO_MANY])
BIG = node("n1", cpu="8")
GONE: dict[str, tuple[str, Snapshot]] = {  # case: (why the request goes; empty: it stays, the cluster now)
    "nothing changed": ("", BEFORE),
    "the gang is gone": ("its gang is gone", snapshot([ONE])),
    "it is not ours any more": ("its gang is gone", snapshot([ONE], [replace(TOO_MANY, own=False)])),
    "it may start": ("", snapshot([BIG], [TOO_MANY])),
    "it starts, some have nodes": ("",
        snapshot([BIG], [gang("g", members=[bound(waiting_members()[0], "n1"), *waiting_members()[1:]])])),
    "it has started": ("its gang has started",
        snapshot([BIG], [gang("g", members=[bound(one, "n1") for one in waiting_members()])])),
    "pods are missing": ("its gang does not wait for room any more",
        snapshot([ONE], [gang("g", members=waiting_members(3), min_member=4)])),
    "it backs off": ("", snapshot([BIG], [TOO_MANY], backing_off_until_s={gang_key("default", "g"): NOW_S + 10.0})),
    "it needs more": ("its gang needs something else now", snapshot([ONE], [gang("g", 5)])),
    "it needs others": ("its gang needs something else now", snapshot([ONE], [gang("g", 4, cpu="2")])),
    "other pods of the same kind": ("", snapshot([ONE], [gang("g", members=gang("again", 4).members)])),
}  # fmt: skip


@pytest.mark.parametrize(("said", "cluster"), GONE.values(), ids=GONE)
def test_when_a_request_is_taken_back(said: str, cluster: Snapshot) -> None:
    request = request_of(BEFORE)
    assert steps(cluster, request) == ((Delete(request, said),) if said else ())


NEWER = {  # case: the cluster, of which the plan does not know yet
    "its pods have nodes": snapshot([BIG], [gang("g", members=[bound(one, "n1") for one in waiting_members()])]),
    "pods are gone": snapshot([ONE], [gang("g", members=waiting_members(2), min_member=4)]),
    "it is gone": snapshot([ONE]),
}


@pytest.mark.parametrize("newer", NEWER.values(), ids=NEWER)
def test_a_plan_that_is_older_than_the_cluster_asks_nothing(newer: Snapshot) -> None:
    """What it says of a gang counts only as far as the gang is still so."""
    assert steps_of(newer, planned(BEFORE), POLICY, (), limits=LIMITS, now_s=NOW_S) == ()


def test_of_two_requests_the_later_one_counts() -> None:
    """As after a crash between making the new one and taking back the old one."""
    old = request_of(BEFORE, outcome=Outcome.FAILED, since_s=0.0)
    new = replace(old, name="r-2", attempt=2, outcome=Outcome.ASKED)
    assert steps(BEFORE, old, new) == steps(BEFORE, new, old) == (Delete(old, "a later one has taken its place"),)
    crowded = snapshot([ONE], [TOO_MANY, gang("h", 4, priority=-1)])
    assert not [one for one in steps(crowded, old, new, limits=AskingLimits(most=1)) if isinstance(one, Create)]


def test_what_is_taken_for_the_same() -> None:
    """Names and order of pods do not matter, what a node would look at does."""
    a, b, big = pod("a"), pod("b"), pod("c", cpu="2")
    ssd = pod("d", affinity=(NodeSelectorTerm(expressions=(Requirement("disk", "In", ("ssd",)),)),))
    assert fingerprint_of([[a], [big]]) == fingerprint_of([[big], [b]])
    assert len({fingerprint_of(one) for one in ([[a]], [[a, b]], [[big]], [[ssd]])}) == 4
