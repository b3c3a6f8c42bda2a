"""Requests as kube-scheduler's Go types write them, and the exact bytes of our replies.

Why bytes: the wire has no version, absent values are explicit nulls, and a reply of the wrong shape rejects every node
or drops every score without an error. The files are tests/fixtures/wire/NAME.request.json and NAME.reply.json.
"""

from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.convert.wire import Failed, FilterAnswer, Passed, Refused
from extender.runtime.telemetry import Telemetry
from extender.server.app import VerbsApp
from scoring import NodeName
from scoring.model.reasons import Reason
from tests.fakes.verbs import FakeVerbs, FakeViews

FIXTURES = Path(__file__).parent.parent / "fixtures" / "wire"


ALL = Passed(())  # stands for the request's own list


def passing(*names: str) -> Passed:
    return Passed([NodeName(name) for name in names])


GOLDENS: dict[str, tuple[str, str, FilterAnswer | Reason | None, str]] = {  # case: (verb, request, decision, reply)
    "names: one passes, the others have their reason": (
        "filter", "args-names", passing("n2"), "filter-one-of-three"),
    "names: all pass": ("filter", "args-names", ALL, "filter-all"),
    "names: none passes, each has the reason and no preemption": (
        "filter", "args-names", Refused(Reason.NO_ROOM), "filter-none"),
    "names: no decision is an Error and passes nothing": (
        "filter", "args-names", Failed(Reason.NOT_SYNCED), "filter-error"),
    "nodes: the very objects that pass, and their names": (
        "filter", "args-nodes", passing("n1"), "filter-nodes-one"),
    "nodes: all pass": ("filter", "args-nodes", ALL, "filter-nodes-all"),
    "nodes: none passes": ("filter", "args-nodes", Refused(Reason.NO_ROOM), "filter-nodes-none"),
    "both forms: the names decide": ("filter", "args-both-forms", ALL, "filter-both-forms"),
    "keys in other cases are read as Go reads them": (
        "filter", "args-lower-cased", passing("n2"), "filter-lower-cased"),
    "names that need escapes": ("filter", "args-escaped-names", Refused(Reason.NO_ROOM), "filter-escaped-none"),
    "no names: an empty answer that is not {}": ("filter", "args-empty-names", ALL, "filter-empty-names"),
    "neither names nor nodes": ("filter", "args-no-nodes", ALL, "filter-no-nodes"),
    "null pod": ("filter", "args-null-pod", ALL, "filter-null-pod"),
    "empty object": ("filter", "args-empty-object", ALL, "filter-null-pod"),
    "bytes after the value": ("filter", "args-trailing", ALL, "filter-trailing"),
    "a number for a name": ("filter", "args-number-name", ALL, "filter-number-name"),
    "scores of names": ("prioritize", "args-names", None, "prioritize-names"),
    "scores of nodes": ("prioritize", "args-nodes", None, "prioritize-nodes"),
    "scores of names that need escapes": ("prioritize", "args-escaped-names", None, "prioritize-escaped"),
    "scores of a pod that cannot be read are equal": ("prioritize", "args-null-pod", None, "prioritize-null-pod"),
    "scores of no names": ("prioritize", "args-empty-names", None, "prioritize-nothing"),
    "scores of names that cannot be read": ("prioritize", "args-number-name", None, "prioritize-nothing"),
    "bound": ("bind", "binding", None, "bind-done"),
    "bind keys in other cases": ("bind", "binding-lower-cased", None, "bind-done"),
    "bind refused": ("bind", "binding", Reason.QUORUM_TIMEOUT, "bind-refused"),
    "bind to no node": ("bind", "binding-no-node", None, "bind-no-node"),
}  # fmt: skip


@pytest.mark.parametrize(("verb", "request_name", "decision", "reply_name"), GOLDENS.values(), ids=GOLDENS)
async def test_reply_is_the_recorded_one(
    verb: str, request_name: str, decision: FilterAnswer | Reason | None, reply_name: str
) -> None:
    content = (FIXTURES / f"{request_name}.request.json").read_bytes()
    want = (FIXTURES / f"{reply_name}.reply.json").read_bytes().removesuffix(b"\n")
    app = VerbsApp(_deciding(decision), FakeViews(), Telemetry())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://netgang") as client:
        reply = await client.post(f"/{verb}", content=content)
    assert (200, want) == (reply.status_code, reply.content)
    assert {"content-type": "application/json", "content-length": str(len(want))} == dict(reply.headers)


def test_every_recording_is_used() -> None:
    cases = GOLDENS.values()
    named = {f"{name}.request.json" for _, name, _, _ in cases} | {f"{name}.reply.json" for _, _, _, name in cases}
    assert named == {file.name for file in FIXTURES.iterdir()}


def _deciding(decision: Any) -> FakeVerbs:
    async def on_bind(*_: object) -> Any:
        return decision

    return FakeVerbs(
        lambda args: Passed(args.node_names) if decision is ALL else decision,
        lambda args: range(len(args.node_names)),
        on_bind,
    )
