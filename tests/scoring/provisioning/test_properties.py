"""What holds of all requests for nodes: they end, they are few, nothing decides their order, and they are enough."""

from collections.abc import Sequence

from hypothesis import assume, given
from hypothesis import strategies as st

from scoring.feasibility.quorum import quorum_of
from scoring.ids import GangKey, ResourceName
from scoring.model import Node, Pod
from scoring.model.resources import CPU
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.provisioning.decide import WANTS_NODES, steps_of
from scoring.provisioning.requests import AskingLimits, Create, Delete, Outcome, Request, Step
from tests.builders import bound, node, snapshot
from tests.example_counts import FEW
from tests.scoring.plan.planned import LATE_S, POLICY, clusters, crowded

NOW_S = LATE_S + 100.0
OUTCOMES = st.sampled_from(list(Outcome))


def steps(cluster: Snapshot, requests: list[Request], *, most: int = 2, now_s: float = NOW_S) -> tuple[Step, ...]:
    made = plan(cluster, POLICY, now_s=now_s)
    return steps_of(cluster, made, POLICY, requests, limits=AskingLimits(most), now_s=now_s)


def done(requests: list[Request], found: tuple[Step, ...], *, outcome: Outcome = Outcome.ASKED) -> list[Request]:
    left = list(requests)
    for step in found:
        match step:
            case Create(gang, sets, fingerprint, attempt, zones):
                name = f"{gang}-{fingerprint}-{attempt}"
                left.append(Request(name, gang, fingerprint, attempt, len(sets), zones, outcome, NOW_S))
            case Delete(request):
                left.remove(request)
    return left


@FEW
@given(st.one_of(clusters(), crowded()), OUTCOMES, st.integers(1, 3))
def test_it_comes_to_rest(cluster: Snapshot, outcome: Outcome, most: int) -> None:
    """While nothing changes there is a last step, whatever is answered; and never more requests than there may be."""
    requests: list[Request] = []
    for _ in range(len(cluster.gangs) + 1):
        found = steps(cluster, requests, most=most)
        if not found:
            break
        assert all(isinstance(step, Create) for step in found)
        requests = done(requests, found, outcome=outcome)
        assert len(requests) <= most
    assert steps(cluster, requests, most=most) == ()
    assert len({one.gang for one in requests}) == len(requests)


@FEW
@given(st.one_of(clusters(), crowded()), st.data())
def test_whatever_there_is_ends_as_one_request_for_each_gang(cluster: Snapshot, data: st.DataObject) -> None:
    """Requests of any age, answer and number, as a crash may leave them, in any order."""
    keys = [*cluster.gangs, GangKey("default/gone")]
    first = steps(cluster, [])
    prints = [step.fingerprint for step in first if isinstance(step, Create)] + ["other"]
    requests = [
        Request(
            name=f"r{i}",
            gang=data.draw(st.sampled_from(keys)),
            fingerprint=data.draw(st.sampled_from(prints)),
            attempt=data.draw(st.integers(1, 4)),
            outcome=data.draw(OUTCOMES),
            since_s=data.draw(st.sampled_from([0.0, NOW_S])),
        )
        for i in range(data.draw(st.integers(0, 5)))
    ]
    found = steps(cluster, requests)
    assert found == steps(cluster, data.draw(st.permutations(requests)))
    assert sum(isinstance(step, Create) for step in found) <= 1
    left = done(requests, found)
    assert len({one.gang for one in left}) == len(left)
    assert GangKey("default/gone") not in {one.gang for one in left}
    made = plan(cluster, POLICY, now_s=NOW_S)
    for one in left:
        waits = made.waiting.get(one.gang)
        assert waits is None or waits.reason in WANTS_NODES or waits.reason.name in ("SPILL_WAIT", "BACKING_OFF")


def fresh(name: str, zone: str, pods: Sequence[Pod]) -> Node:
    """A new node that takes any one of these pods, with the labels that pods here may ask for."""
    gpu_name = ResourceName("nvidia.com/gpu")
    cpu, gpu = (max(dict(pod.requests).get(one, 0) for pod in pods) for one in (CPU, gpu_name))
    return node(name, zone=zone, cpu=f"{cpu}m", gpu=gpu, labels={"disk": "ssd"})


@FEW
@given(st.one_of(clusters(), crowded()))
def test_what_is_asked_for_is_enough(cluster: Snapshot) -> None:
    """With a node for each pod that was named, where they were asked for, the gang is admitted beside all others."""
    made = plan(cluster, POLICY, now_s=NOW_S)
    found = steps(cluster, [])
    assume(found)
    (step,) = found
    assert isinstance(step, Create)
    gang = cluster.gangs[step.gang]
    pods = [pod for alike in step.sets for pod in alike]
    assert quorum_of(gang).reached_by({pod.uid for pod in pods} | {pod.uid for pod in gang.placed})
    zone = str((*step.zones, cluster.table.nodes[0].zone)[0])
    nodes = [fresh(f"new{i}", zone, pods) for i in range(len(pods))]
    others = [one for key, other in cluster.gangs.items() if key != step.gang for one in other.members]
    where = {one.uid: one.node or made.node_of.get(one.uid) for one in others}
    placed = [bound(one, str(where[one.uid])) for one in others if where[one.uid] is not None]
    larger = snapshot([*cluster.table.nodes, *nodes], [gang], pods=placed)
    assert step.gang in plan(larger, POLICY, now_s=NOW_S).admitted
