"""The note that lets a claim survive a restart: what is read of it, and what is not."""

from dataclasses import replace

import msgspec
import pytest

from extender.controller.preemption_notes import NOTE, note_for, note_of
from extender.convert import pod_from_json
from scoring.ids import GangKey, NodeName
from scoring.model import Pod
from scoring.snapshot import Claim
from tests.builders import gang, pod

ONE, OTHER = pod("g-0", gang="g"), pod("g-1", gang="g")
CLAIM = Claim(GangKey("default/g"), {ONE.uid: NodeName("n1"), OTHER.uid: NodeName("n2")}, (GangKey("default/low"),))


def noted(one: Pod, *, at_s: float = 5.0, on: Pod | None = None) -> Pod:
    """The pod with a note that was made for it, or for another one."""
    text = note_for(on or one, CLAIM, pods=3, at_s=at_s)[NOTE]
    return replace(one, options=(("preempts", text),))


def test_a_note_gives_the_claim_back() -> None:
    """Who leaves, where the members go, how many pods were to go and since when."""
    carrier = noted(ONE)
    found = note_of(gang("g", members=[carrier, OTHER]))
    assert found is not None
    pod_of_note, note = found
    assert (pod_of_note, note.claim(CLAIM.gang), note.pods, note.at_s) == (carrier, CLAIM, 3, 5.0)


def test_the_newest_of_several_counts() -> None:
    """An old one may be left from a claim that could not be wiped."""
    found = note_of(gang("g", members=[noted(ONE, at_s=7.0), noted(OTHER, at_s=6.0)]))
    assert found is not None
    assert found[0].uid == ONE.uid


WORTHLESS = {  # case: a member whose note counts for nothing
    "none": ONE,
    "empty": replace(ONE, options=(("preempts", ""),)),
    "no JSON": replace(ONE, options=(("preempts", "n1"),)),
    "a copy of another pod's": noted(ONE, on=OTHER),
    "of a pod that has its node": replace(noted(ONE), node=NodeName("n1")),
}


@pytest.mark.parametrize("member", WORTHLESS.values(), ids=WORTHLESS)
def test_what_is_not_read(member: Pod) -> None:
    """Templates, copies and leftovers keep no room."""
    assert note_of(gang("g", members=[member])) is None


@pytest.mark.parametrize(("written", "never"), [("", False), ('"preemptionPolicy": "Never",', True)])
def test_a_pods_preemption_policy_is_read(written: str, never: bool) -> None:
    """`PreemptLowerPriority` is the default; `Never` is obeyed."""
    raw = f'{{"metadata": {{"name": "p", "uid": "u"}}, "spec": {{{written} "containers": []}}}}'
    assert pod_from_json(raw.encode()).never_preempts is never


def test_the_note_is_an_option_that_decides_nothing_else() -> None:
    """It is no unknown annotation, and a pod that carries it is planned as before."""
    raw = {"metadata": {"name": "p", "uid": "u", "annotations": {NOTE: ""}}, "spec": {"containers": []}}
    assert pod_from_json(msgspec.json.encode(raw)).options == (("preempts", ""),)
