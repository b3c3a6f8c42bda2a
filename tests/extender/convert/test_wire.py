"""Decoding and encoding of extender/v1, apart from HTTP: definitions at the edges, and properties over any names."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import wire
from extender.convert.wire import FilterArgs, Passed, PodRef, Refused, decode_bind, decode_filter, encode_filter
from extender.errors import BadRequestError
from scoring import Namespace, NodeName, PodName, PodUid
from scoring.model.reasons import Reason

POD = {"metadata": {"name": "p", "namespace": "team-a", "uid": "u1"}}
POD_REF = PodRef(PodUid("u1"), Namespace("team-a"), PodName("p"))

any_name = st.text(st.characters(codec="utf-8"), max_size=12).map(NodeName)
any_names = st.lists(any_name, max_size=30)


def body(**parts: Any) -> bytes:
    """ExtenderArgs with all keys, a small Pod and the nodes n1 and n2 unless `parts` say otherwise."""
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": ["n1", "n2"]} | parts).encode()


def asked(*names: str) -> FilterArgs:
    return decode_filter(body(NodeNames=list(names)))


def test_both_forms() -> None:
    """Identity and names come out, names also beside a bad Pod; Pod and Node objects stay the bytes that they were."""
    want = FilterArgs(POD_REF, json.dumps(POD).encode(), [NodeName("n1"), NodeName("n2")], None, b'["n1", "n2"]')
    assert want == decode_filter(body())
    nodes = [{"metadata": {"name": "n1", "labels": {"a": "b"}}}, {"metadata": {"name": "n2"}, "spec": {}}]
    args = decode_filter(body(NodeNames=None, Nodes={"metadata": {}, "items": nodes}))
    assert [wire.readable_names(one) for one in (body(Pod=17), body()[:-1], b"")] == [["n1", "n2"], [], []]
    assert (args.node_names, [json.loads(raw) for raw in args.nodes_json or ()]) == (["n1", "n2"], nodes)


LEGAL = {  # case: (names read, body)
    "no items": ([], body(NodeNames=None, Nodes={"metadata": {}, "items": []})),
    "null items": ([], body(NodeNames=None, Nodes={"metadata": {}, "items": None})),
    "no items key": ([], body(NodeNames=None, Nodes={})),
    "no names": ([], body(NodeNames=[])),
    "a name twice": (["n1", "n1"], body(NodeNames=["n1", "n1"])),
    "both forms": (["n3"], body(NodeNames=["n3"], Nodes={"items": [{"metadata": {"name": "n1"}}]})),
    "unknown keys": (["n1", "n2"], body(Context={"a": [1]}, nodenames2=["n9"])),
    "absent Nodes": (["n1"], b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":["n1"]}'),
    "a key twice, the last counts": (["n2"], body()[:-1] + b',"NodeNames":["n2"]}'),
    "white space": (["n1"], b' {\n"Pod" : {"metadata":{"name":"p"}} ,"Nodes": null , "NodeNames" : [ "n1" ] }\r\n'),
    "a number beyond 64 bits in the Pod": (["n1", "n2"], body(Pod=POD | {"spec": {"a": 10**400}})),
}


@pytest.mark.parametrize(("want", "sent"), LEGAL.values(), ids=LEGAL)
def test_legal_bodies(want: list[str], sent: bytes) -> None:
    assert want == decode_filter(sent).node_names


MALFORMED = {  # case: (words of the error, body)
    "empty": ("empty", b""),
    "white space only": ("truncated", b"  "),
    "cut off": ("truncated", body()[:-3]),
    "null": ("null", b"null"),
    "array": ("array", b"[]"),
    "bytes after the value": ("trailing", body() + b"x"),
    "a byte order mark": ("invalid character", b"\xef\xbb\xbf" + body()),
    "not UTF-8 in the names": ("UTF-8", body(NodeNames=["n?"]).replace(b"?", b"\xff")),
    "not UTF-8 in the Pod": ("UTF-8", body(Pod=POD | {"kind": "?"}).replace(b"?", b"\xff")),
    "half a surrogate pair in a name": ("truncated", body(NodeNames=["n\ud800"])),
    "deep arrays": ("deeply", body(Pod=0).replace(b"0", b"[" * 100_000 + b"]" * 100_000)),
    "deep objects": ("deeply", b'{"a":' * 100_000),
    "no Pod": ("Pod is missing", b'{"Nodes":null,"NodeNames":["n1"]}'),
    "null Pod": ("Pod is missing", body(Pod=None)),
    "text for a Pod": ("Pod cannot be read", body(Pod="p")),
    "a Pod without metadata": ("Pod cannot be read", body(Pod={})),
    "a Pod without a name": ("metadata.name", body(Pod={"metadata": {}})),
    "a Pod whose name is a number": ("Pod cannot be read", body(Pod={"metadata": {"name": 1}})),
    "neither form": ("NodeNames and Nodes", body(NodeNames=None)),
    "text for names": ("nodes cannot be read", body(NodeNames="n1")),
    "null among names": ("nodes cannot be read", body(NodeNames=["n1", None])),
    "an array for Nodes": ("nodes cannot be read", body(NodeNames=None, Nodes=[])),
    "a node without a name": ("no metadata.name", body(NodeNames=None, Nodes={"items": [{"metadata": {}}]})),
    "null among nodes": ("nodes cannot be read", body(NodeNames=None, Nodes={"items": [None]})),
}


BAD_BINDINGS = {  # case: (words of the error, body)
    "empty": ("empty", b""),
    "null": ("null", b"null"),
    "no node": ("Node is missing", b'{"PodName":"p","PodNamespace":"a","PodUID":"u"}'),
    "empty uid": ("PodUID is missing", b'{"PodName":"p","PodNamespace":"a","PodUID":"","Node":"n"}'),
    "a number": ("cannot be read", b'{"PodName":1,"PodNamespace":"a","PodUID":"u","Node":"n"}'),
    "deep": ("deeply", b'{"x":' * 100_000),
    "not UTF-8": ("UTF-8", b'{"PodName":"\xff","PodNamespace":"a","PodUID":"u","Node":"n"}'),
}


BROKEN = [*((decode_filter, *it) for it in MALFORMED.values()), *((decode_bind, *it) for it in BAD_BINDINGS.values())]


@pytest.mark.parametrize(
    ("decode", "words", "sent"), BROKEN, ids=[*MALFORMED, *(f"binding, {one}" for one in BAD_BINDINGS)]
)
def test_malformed_bodies(decode: Callable[[bytes], object], words: str, sent: bytes) -> None:
    with pytest.raises(BadRequestError, match=words):
        decode(sent)


@pytest.mark.parametrize("spell", [str.lower, str.upper, str.swapcase], ids=["lower", "upper", "swapped"])
def test_keys_in_any_case(spell: Any) -> None:
    """Top-level keys are read as Go reads them, whatever their case."""
    binding = {"PodName": "p", "PodNamespace": "team-a", "PodUID": "u1", "Node": "n1"}
    spelt = ({spell(key): value for key, value in parts.items()} for parts in (json.loads(body()), binding))
    args, bind = (json.dumps(parts).encode() for parts in spelt)
    assert (decode_filter(args).pod, decode_filter(args).node_names) == (POD_REF, ["n1", "n2"])
    assert decode_bind(bind) == wire.BindArgs(PodName("p"), Namespace("team-a"), PodUid("u1"), NodeName("n1"))


@given(names=any_names, as_sent=st.booleans(), data=st.data())
def test_replies_are_about_the_nodes_asked(names: list[NodeName], as_sent: bool, data: st.DataObject) -> None:
    """Some pass, all pass, none does, or all have scores: each node once for each time that it was asked."""
    args = asked(*names) if as_sent else FilterArgs(POD_REF, b"{}", names)
    passed = data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    reply = json.loads(encode_filter(args, Passed(passed)))
    rest = {name: Reason.OTHER_NODE_PLANNED for name in names if name not in passed}
    assert (passed, rest) == (reply["NodeNames"], reply["FailedAndUnresolvableNodes"] or {})
    assert (reply["Error"], reply["FailedNodes"], reply["Nodes"]) == ("", None, None)
    own, copy = (json.loads(encode_filter(args, Passed(each))) for each in (args.node_names, list(names)))
    assert (names, copy) == (own["NodeNames"], own | {"FailedAndUnresolvableNodes": copy["FailedAndUnresolvableNodes"]})
    reply = json.loads(encode_filter(args, Refused(Reason.BEHIND)))
    assert ([], dict.fromkeys(names, Reason.BEHIND)) == (reply["NodeNames"], reply["FailedAndUnresolvableNodes"])
    scores = data.draw(st.lists(st.integers(0, wire.MAX_SCORE), min_size=len(names), max_size=len(names)))
    want = [{"Host": name, "Score": score} for name, score in zip(names, scores, strict=True)]
    assert want == json.loads(wire.encode_scores(args, scores))


@pytest.mark.parametrize("scores", [[1], [1, 2, 3], [1, 11], [1, -1], [1, 0.5]], ids=str)
def test_what_kube_scheduler_would_misread_is_a_bug(scores: list[Any]) -> None:
    """Wrong scores, and a node that was not asked, for which it fails the whole call; 5.0 would drop all scores."""
    with pytest.raises(ValueError, match="score"):
        wire.encode_scores(asked("n1", "n2"), scores)
    with pytest.raises(ValueError, match="n9"):
        encode_filter(asked("n1", "n2"), Passed([NodeName("n1"), NodeName("n9")]))
    assert wire.encode_scores(asked("n1"), [5.0]) == b'[{"Host":"n1","Score":5}]'  # type: ignore[list-item]


def test_reasons_are_shown_where_they_are_read() -> None:
    """Passing nothing is a refusal with a reason for each node; beside one that passes only small requests have any."""
    args = asked("n1", "n2")
    refused = encode_filter(args, Refused(Reason.NODE_NOT_OFFERED))
    assert refused == encode_filter(args, Passed((), others=Reason.NODE_NOT_OFFERED))
    for size, shown in ((wire.REASONS_SHOWN_MAX, wire.REASONS_SHOWN_MAX - 1), (wire.REASONS_SHOWN_MAX + 1, 0)):
        reply = json.loads(encode_filter(asked(*(f"n{i}" for i in range(size))), Passed([NodeName("n0")])))
        assert len(reply["FailedAndUnresolvableNodes"] or ()) == shown


def test_free_texts_are_escaped() -> None:
    text = 'he said "no"\n\\'
    assert text == json.loads(encode_filter(asked("n1"), wire.Failed(text)))["Error"]
    assert text == json.loads(wire.encode_bind(text))["Error"]
    assert [{"Host": text, "Score": 0}] == json.loads(wire.encode_equal_scores([NodeName(text)]))
