"""Thousands of undocumented bodies to each of the three verbs: only documented answers come back.

Straight to the ASGI callable, because a client would spend most of the time. The service behind passes and prefers all
it is given, so that a body which is half understood would show as nodes that pass.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from extender.convert.wire import MAX_SCORE, Passed
from extender.runtime.telemetry import Telemetry
from extender.server.app import VerbsApp
from tests.example_counts import MANY, THOROUGH
from tests.extender.server.served import call
from tests.fakes.verbs import FakeVerbs, FakeViews

NODES = [{"metadata": {"name": f"n{i}", "labels": {"zone": "a"}}, "spec": {}} for i in range(3)]
VALID: Mapping[str, Any] = {  # a request for all three verbs at once: each ignores the keys of the others
    "Pod": {"metadata": {"name": "p", "namespace": "team-a", "uid": "u1"}, "spec": {"containers": [{"name": "c"}]}},
    "Nodes": None,
    "NodeNames": ["n1", "n2", "é"],
    "PodName": "p",
    "PodNamespace": "team-a",
    "PodUID": "u1",
    "Node": "n1",
}
SEEDS = [json.dumps({**VALID, **parts}).encode() for parts in ({}, {"NodeNames": None, "Nodes": {"items": NODES}})]

HUGE = "a number"  # stands for a number that Python itself would not write: `to_bytes` puts 100,000 digits in its place


def to_bytes(value: object) -> bytes:
    return json.dumps(value).encode().replace(f'"{HUGE}"'.encode(), b"9" * 100_000)


numbers = st.one_of(
    st.integers(),
    st.sampled_from([10**18, 2**63, 2**64, 10**400, 1e308, 5e-324]),
    st.floats(allow_nan=True, allow_infinity=True),
)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=6) | st.sampled_from(["n1", "", "\ud800", "\x00", HUGE])
any_json = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def wrong_types(draw: st.DrawFn) -> bytes:
    """A valid request with up to two of its parts replaced by anything, dropped, or spelt in another case."""
    parts = dict(VALID)
    for key in draw(st.lists(st.sampled_from(sorted(VALID)), min_size=1, max_size=2, unique=True)):
        value, how = parts.pop(key), draw(st.sampled_from(["replace", "drop", "lower", "upper"]))
        if how != "drop":
            name = {"lower": key.lower(), "upper": key.upper()}.get(how, key)
            parts[name] = draw(any_json) if how == "replace" else value
    return to_bytes(parts)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid request with a stretch of it replaced by other bytes, cut off, or doubled."""
    seed = draw(st.sampled_from(SEEDS))
    begin = draw(st.integers(0, len(seed)))
    end = draw(st.integers(begin, min(len(seed), begin + 8)))
    return seed[:begin] + draw(st.binary(max_size=4) | st.just(seed[begin:])) + seed[end:]


@st.composite
def deep(draw: st.DrawFn) -> bytes:
    """Brackets, up to far beyond any parser's stack, where a value belongs; closed or not."""
    opening, closing = draw(st.sampled_from([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"":', b"}]")]))
    depth = draw(st.sampled_from([10, 900, 1_000, 1_100, 30_000]))
    nested = opening * depth + b"1" + closing * draw(st.sampled_from([0, depth - 1, depth]))
    return draw(st.sampled_from(SEEDS)).replace(draw(st.sampled_from([b"null", b'"u1"', b'"n1"', b'"c"'])), nested)


bodies = st.one_of(st.binary(max_size=40), mutated(), wrong_types(), any_json.map(to_bytes))


class Direct:
    def __init__(self) -> None:
        self.verbs = FakeVerbs(lambda args: Passed(args.node_names), lambda args: [MAX_SCORE] * len(args.node_names))
        self._telemetry = Telemetry()
        self._app = VerbsApp(self.verbs, FakeViews(), self._telemetry)
        self.loop = asyncio.new_event_loop()  # never made current: pytest-asyncio keeps its own there

    def post(self, verb: str, body: bytes) -> Any:
        for calls in (self.verbs.filtered, self.verbs.prioritized, self.verbs.bound):
            calls.clear()
        start, content = self.loop.run_until_complete(call(self._app, verb, [body]))
        assert start["status"] == 200
        assert dict(start["headers"])[b"content-length"] == b"%d" % len(content["body"])
        assert self._telemetry.registry.get_sample_value("netgang_internal_errors_total", {"place": verb}) is None
        return json.loads(content["body"])


@pytest.fixture(scope="module")
def direct() -> Iterator[Direct]:
    """One app for all bodies: what one of them leaves behind must not spoil the next."""
    app = Direct()
    yield app
    app.loop.close()


def named_in(body: bytes) -> set[str] | None:
    """The names that a lenient reader finds in `body`; None if it finds no JSON object."""
    try:
        parts = json.loads(body, parse_int=len)  # the value is of no interest, and may have too many digits for int
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, dict):
        return None
    if not {"Pod", "Nodes", "NodeNames"} <= parts.keys():
        parts = {key.casefold(): value for key, value in parts.items()}
    names, nodes = parts.get("NodeNames", parts.get("nodenames")), parts.get("Nodes", parts.get("nodes"))
    if names is None and isinstance(nodes, dict):
        items = nodes.get("items")
        names = [name_of(item) for item in items] if isinstance(items, list) else []
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def name_of(item: Any) -> Any:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    return metadata.get("name") if isinstance(metadata, dict) else None


def check(direct: Direct, body: bytes) -> None:
    names = named_in(body)

    reply = direct.post("filter", body)
    assert set(reply) == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
    assert isinstance(reply["Error"], str)
    if reply["Error"]:
        assert reply["Error"].startswith("netgang: malformed request: ")
        assert (reply["NodeNames"], reply["Nodes"], direct.verbs.filtered) == (None, None, [])
    else:
        assert set(reply["NodeNames"]) == names

    reply = direct.post("prioritize", body)
    assert {each["Host"] for each in reply} <= (names or set())
    assert all(type(each["Score"]) is int and 0 <= each["Score"] <= MAX_SCORE for each in reply)

    reply = direct.post("bind", body)
    assert set(reply) == {"Error"}
    assert reply["Error"] == "" or reply["Error"].startswith("netgang: malformed request: ")
    assert reply["Error"] or names is not None
    assert bool(direct.verbs.bound) is not bool(reply["Error"]), "what cannot be read never reaches the service"


def relatives(body: bytes, place: int) -> tuple[bytes, ...]:
    """`body` and four more a broken client could make of it: cut off, doubled in part, one bit other, other case."""
    at = place % (len(body) + 1)
    flipped = body[:at] + bytes(byte ^ (1 << place % 8) for byte in body[at : at + 1]) + body[at + 1 :]
    return body, body[:at], body[:at] + body[at // 2 :], flipped, body.swapcase()


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(MANY, suppress_health_check=list(HealthCheck))
@given(body=bodies, place=st.integers(0, 2**16))
@example(b"", 0)
@example(SEEDS[0] + b"{}", 0)
@example(SEEDS[0].replace(b"n1", b"\xff\xfe"), 0)
@example(json.dumps(dict.fromkeys(VALID, 7)).encode(), 0)
@example(SEEDS[0], 100)
@example(SEEDS[1], 200)
def test_any_body_gets_a_documented_answer(direct: Direct, body: bytes, place: int) -> None:
    """Documented, decodable, never a bug: each example is five bodies, sent to three verbs."""
    for relative in relatives(body, place):
        check(direct, relative)


@pytest.mark.slow
@pytest.mark.timeout(300)
@settings(THOROUGH, suppress_health_check=list(HealthCheck))
@given(body=deep())
def test_any_depth_gets_a_documented_answer(direct: Direct, body: bytes) -> None:
    check(direct, body)


def test_the_seeds_are_understood(direct: Direct) -> None:
    """The mutated requests start from ones that all three verbs accept; otherwise they would test little."""
    for seed in SEEDS:
        for verb in ("filter", "bind"):
            assert not direct.post(verb, seed)["Error"]
        assert {each["Score"] for each in direct.post("prioritize", seed)} == {MAX_SCORE}
