"""What is written on an owner that we suspend, and how it is read again (docs/safety.md S10)."""

import json
from typing import Any

import pytest

from extender.controllers.failure_budget import KINDS, Json, can_suspend, forbidding, matches
from extender.controllers.removal.suspensions import HISTORY, NOTE, FreshOwner, Note
from extender.kube.calls import SUSPENDED
from extender.signed_notes import Bearer, NoteKind
from scoring.model import Controller
from tests.fakes.notes import notes_of_a_former_process

NOTES = notes_of_a_former_process()
JOB = Controller("batch/v1", "Job", "train", "u1")
TF_JOB = Controller("kubeflow.org/v1", "TFJob", "train", "u1")


def owner(ref: Controller = JOB, **fields: Any) -> FreshOwner:
    metadata = {"name": "train", "uid": "u1", "resourceVersion": "7", **fields.pop("metadata", {})}
    return FreshOwner.read(ref.api_version, ref.kind, json.dumps({"metadata": metadata, **fields}).encode())


def patched(before: FreshOwner, patch: bytes) -> FreshOwner:
    def merged(old: Any, new: Any) -> Any:
        if not isinstance(new, dict):
            return new
        found = dict(old) if isinstance(old, dict) else {}
        found |= {name: merged(found.get(name), value) for name, value in new.items()}
        return {name: value for name, value in found.items() if value is not None}

    return FreshOwner(before.ref, merged(before.content, json.loads(patch)))


def test_the_kinds_with_suspend_are_those_with_the_right() -> None:
    suspendable = {gk for gk in KINDS if can_suspend(Controller(f"{gk[0]}/v1", gk[1], "x", "u"))}
    assert suspendable == set(SUSPENDED)


@pytest.mark.parametrize("resumed", [True, False])
@pytest.mark.parametrize("ref", [JOB, TF_JOB], ids=["Job", "TFJob"])
def test_suspended_and_resumed_an_owner_is_as_it_was(ref: Controller, resumed: bool) -> None:
    """A note that is only forgotten leaves the switch; a restart that repairs nothing has no history."""
    before = owner(ref, spec={"other": 1}, metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}})
    note = Note("g", "w-3 was lost", 1000.0)
    patch = before.suspend_patch(note, (1000.0,) if resumed else (), notes=NOTES, attained=None)
    assert json.loads(patch)["metadata"]["resourceVersion"] == "7"
    held = patched(before, patch)
    assert (held.suspended, held.note(NOTES)) == (True, note)
    after = patched(held, held.resume_patch(resume=resumed))
    assert (after.suspended, after.note(NOTES)) == (not resumed, None)
    history = {HISTORY: noted(HISTORY, "1000")} if resumed else {}
    assert after.content["metadata"]["annotations"] == {"c": "d", **history}
    assert after.content["metadata"]["labels"] == {"a": "b"}
    assert after.content["spec"]["other"] == 1


def noted(kind: str, content: str, *, uid: str = "u1", namespace: str = "") -> str:
    bearer = Bearer("batch/v1", "Job", namespace, "train", uid)
    return NOTES.write(NoteKind(kind), bearer, content)


STRANGE = {  # case: the annotation's text
    "none": None,
    "what somebody typed": "resume me",
    "without a signature": json.dumps({"gang": "g", "why": "", "at_s": 1.0}),
    "another's": noted(NOTE, json.dumps({"gang": "g", "why": "", "at_s": 1.0}), uid="u2"),
    "of another namespace": noted(NOTE, json.dumps({"gang": "g", "why": "", "at_s": 1.0}), namespace="b"),
    "for something else": noted(HISTORY, json.dumps({"gang": "g", "why": "", "at_s": 1.0})),
    "nested": '{"gang":' + "[" * 200_000,
    "nested and signed": noted(NOTE, "[" * 3000),
    "not all of it": noted(NOTE, json.dumps({"gang": "g"})),
}


@pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE)
def test_notes_that_do_not_count(text: str | None) -> None:
    """A copy of the manifest, or a text that no parser can take, resumes nothing (docs/safety.md S21, S22)."""
    annotations = {} if text is None else {NOTE: text}
    assert owner(metadata={"annotations": annotations}).note(NOTES) is None


def test_the_history_keeps_an_hour() -> None:
    """And what is not ours counts for nothing."""
    assert owner(metadata={"annotations": {HISTORY: "5000,5001,5002"}}).restarts(NOTES, now_s=5003.0) == ()
    forged = {NoteKind.ATTAINED.value: '{"gang":"g","hours":0.01}'}
    assert owner(metadata={"annotations": forged}).attained(NOTES) is None
    before = owner(metadata={"annotations": {HISTORY: noted(HISTORY, "10,5000,nonsense,4000")}})
    assert before.restarts(NOTES, now_s=7000.0) == (4000.0, 5000.0)
    patch = json.loads(before.suspend_patch(Note("g", "", 8000.0), (5000.0, 8000.0), notes=NOTES, attained=None))
    assert patch["metadata"]["annotations"][HISTORY] == noted(HISTORY, "5000,8000")


def says(kind: str, status: str = "True") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status}]}}


STATES: dict[str, tuple[dict[str, Any], bool, bool]] = {  # case: (fields, stopped, over)
    "new": ({"status": {}}, False, False),
    "has stopped": (says("Suspended"), True, False),
    "runs again": (says("Suspended", "False"), False, False),
    "a Job is complete": (says("Complete"), False, True),
    "a TFJob has succeeded": ({"ref": TF_JOB, **says("Succeeded")}, False, True),
    "is about to fail": (says("FailureTarget"), False, True),
    "is being deleted": ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, False, True),
}


@pytest.mark.parametrize(("fields", "stopped", "over"), STATES.values(), ids=STATES)
def test_what_an_owner_says_of_itself(fields: dict[str, Any], stopped: bool, over: bool) -> None:
    found = owner(**fields)
    assert (found.has_stopped, found.over) == (stopped, over)


def test_what_differs_between_kinds() -> None:
    assert (KINDS[JOB.group_kind].fixed_names, KINDS[TF_JOB.group_kind].fixed_names) == (False, True)
    assert owner(spec={"podReplacementPolicy": "Failed"}).waits_for_the_end
    assert owner(TF_JOB).waits_for_the_end
    assert not owner(spec={}).waits_for_the_end
    assert owner().ref == JOB


def budget(name: str, allowed: int, *, selector: Json | None, **metadata: Any) -> Json:
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    return {"metadata": {"name": name, **metadata}, "spec": {"selector": selector}, "status": status}


def pod(app: str, *, node: str = "n1", **status: Any) -> Json:
    return {"metadata": {"labels": {"app": app}}, "spec": {"nodeName": node}, "status": status}


TWO = [pod("a"), pod("a")]
BUDGETS: dict[str, tuple[str | None, list[Json], list[Json]]] = {  # case: (who forbids, budgets, pods)
    "none": (None, [], TWO),
    "of others": (None, [budget("b", 0, selector={"matchLabels": {"app": "b"}})], TWO),
    "enough": (None, [budget("b", 2, selector={"matchLabels": {"app": "a"}})], TWO),
    "enough for each, not for all": ("b", [budget("b", 1, selector={"matchLabels": {"app": "a"}})], TWO),
    "of all pods": ("b", [budget("b", 1, selector={})], TWO),
    "of no pods": (None, [budget("b", 0, selector=None)], TWO),
    "behind its own spec": ("b", [budget("b", 9, selector={}, generation=2)], TWO),
    "by name": ("b", [budget("c", 0, selector={}), budget("b", 0, selector={})], TWO),
    "who waits disturbs nobody": (None, [budget("b", 0, selector={})], [pod("a", node="")]),
    "who has ended disturbs nobody": (None, [budget("b", 0, selector={})], [pod("a", phase="Failed")]),
}


@pytest.mark.parametrize(("who", "budgets", "pods"), BUDGETS.values(), ids=BUDGETS)
def test_budgets(who: str | None, budgets: list[Json], pods: list[Json]) -> None:
    """All pods of the gang at once, or none."""
    assert who == answered(budgets, pods)


def answered(budgets: list[Json], pods: list[Json]) -> str | None:
    steps = forbidding(budgets, pods)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def test_a_selector_that_no_pod_is_compared_with() -> None:
    """Each pod is a step, and what it is compared with is bounded: a namespace's owner could hold the loop."""
    for part in ({"matchLabels": dict.fromkeys(map(str, range(513)), "x")},
                 {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"] * 512}]}):  # fmt: skip
        with pytest.raises(ValueError, match="513 labels, expressions and values, of which 512 are read"):
            answered([budget("b", 9, selector=part)], TWO)
    lines = [{"key": "k", "operator": "NotIn", "values": ["v"] * 511}]
    assert answered([budget("b", 1, selector={"matchExpressions": lines})], TWO) == "b"
    assert len(list(forbidding([budget("b", 1, selector={})], [pod("a")] * 9))) == 9


def test_selectors() -> None:
    for operator, values, labels, want in (
        ("In", ["1"], {"a": "1"}, True),
        ("NotIn", ["1"], {"a": "1"}, False),
        ("NotIn", ["1"], {}, True),
        ("Exists", None, {"a": ""}, True),
        ("DoesNotExist", None, {"a": ""}, False),
    ):
        assert want == matches({"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}, labels)
    with pytest.raises(ValueError, match="no operator"):
        matches({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}, {"a": "2"})
