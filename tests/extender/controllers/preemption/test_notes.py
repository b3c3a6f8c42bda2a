"""The notes that let a claim survive a restart: what is read of them, and what is not."""

from dataclasses import replace

import msgspec
import pytest

from extender.controllers.preemption.claims import NOTE, noted_of, notes_for
from extender.convert import pod_from_json
from extender.notes import MOST_CHARS
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, Pod
from scoring.model.snapshot import Claim
from tests.builders import gang, pod
from tests.fakes.notes import notes_of_a_former_process

NOTES = notes_of_a_former_process()
ONE, OTHER = pod("g-0", gang="g"), pod("g-1", gang="g")
WAITS = gang("g", members=[ONE, OTHER])
CLAIM = Claim(GangKey("default/g"), {ONE.uid: NodeName("n1"), OTHER.uid: NodeName("n2")}, (GangKey("default/low"),))


def read(one: Pod, text: str) -> Pod:
    meta = {"name": one.name, "namespace": one.namespace, "uid": one.uid, "annotations": {NOTE: text}}
    raw = msgspec.json.encode({"metadata": meta, "spec": {"containers": []}})
    return replace(one, options=pod_from_json(raw, notes=NOTES).options)


def noted(one: Pod, *, at_s: float = 5.0, on: Pod | None = None) -> Pod:
    written = notes_for(gang("g", members=[on or one]), CLAIM, at_s=at_s, notes=NOTES)
    return read(one, written[0][1][NOTE])


def test_the_notes_give_the_room_back() -> None:
    [(carrier, annotations)] = notes_for(WAITS, CLAIM, at_s=5.0, notes=NOTES)
    found = noted_of(gang("g", members=[read(carrier, annotations[NOTE]), OTHER]))
    assert found is not None
    assert (found.at_s, found.assignment) == (5.0, CLAIM.assignment)
    assert [one.uid for one in found.carriers] == [carrier.uid]
    assert "low" not in annotations[NOTE].partition(" ")[0]


def test_the_newest_of_several_counts() -> None:
    """An old one may be left from a claim that could not be wiped."""
    found = noted_of(gang("g", members=[noted(ONE, at_s=7.0), noted(OTHER, at_s=6.0)]))
    assert found is not None
    assert [one.uid for one in found.carriers] == [ONE.uid]


def test_a_large_gang_has_several_notes() -> None:
    pods = [pod(f"g-{number}", gang="g") for number in range(500)]
    claim = Claim(CLAIM.gang, {one.uid: NodeName(f"ip-10-0-12-{one.name}.example.internal") for one in pods})
    written = notes_for(gang("g", members=pods), claim, at_s=5.0, notes=NOTES)
    assert 1 < len(written) < 20
    assert max(len(note[NOTE]) for _, note in written) <= MOST_CHARS
    texts = {carrier.uid: note[NOTE] for carrier, note in written}
    found = noted_of(gang("g", members=[read(one, texts.get(one.uid, "")) for one in pods]))
    assert found is not None
    assert found.assignment == claim.assignment


def test_a_note_speaks_of_its_own_gang_alone() -> None:
    strange = Claim(CLAIM.gang, {ONE.uid: NodeName("n1"), PodUid("uid-other-p"): NodeName("n2")})
    [(_, annotations)] = notes_for(WAITS, strange, at_s=5.0, notes=NOTES)
    found = noted_of(gang("g", members=[read(ONE, annotations[NOTE]), OTHER]))
    assert found is not None
    assert found.assignment == {ONE.uid: "n1"}


WORTHLESS = {  # case: a member whose note counts for nothing
    "none": ONE,
    "empty": read(ONE, ""),
    "no JSON": read(ONE, "n1"),
    "nested": read(ONE, '{"x":' + "[" * 100_000),
    "without a signature": read(ONE, '{"at_s":5.0,"nodes":{"uid-default-g-0":"n1"}}'),
    "a copy of another pod's": noted(ONE, on=OTHER),
    "of a pod that has its node": replace(noted(ONE), node=NodeName("n1")),
    "of another release": replace(ONE, options=(("preempts", '{"victims": []}'),)),
}


@pytest.mark.parametrize("member", WORTHLESS.values(), ids=WORTHLESS)
def test_what_is_not_read(member: Pod) -> None:
    """Templates, copies, leftovers and what somebody wrote keep no room (docs/safety.md S21, S22)."""
    waits: Gang = gang("g", members=[member])
    assert noted_of(waits) is None


@pytest.mark.parametrize(("written", "never"), [("", False), ('"preemptionPolicy": "Never",', True)])
def test_a_pods_preemption_policy_is_read(written: str, never: bool) -> None:
    """`PreemptLowerPriority` is the default; `Never` is obeyed."""
    raw = f'{{"metadata": {{"name": "p", "uid": "u"}}, "spec": {{{written} "containers": []}}}}'
    assert pod_from_json(raw.encode()).never_preempts is never
