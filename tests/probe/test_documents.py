"""What the agent lets netgang's address assign, and what it keeps until netgang has it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe.documents import Assignment, AssignmentError, Burst, Peer, read_assignment, report
from probe.session import LINKS_KEPT_S, MOST_WINDOWS, Batches, LastKnown, Window

PEER = {"node": "n2", "address": "10.0.0.2", "port": 8862}
WHOLE = {"interval_s": 10.0, "packet_interval_s": 0.1, "peers": [PEER], "reflect_for": ["10.0.0.2"]}
BURST = {
    "id": "b1",
    "server": True,
    "address": "10.0.0.2",
    "port": 8863,
    "seconds": 3.0,
    "size_bytes": 5,
    "wait_s": 9.0,
}


def test_an_assignment() -> None:
    assert read_assignment(json.dumps(WHOLE).encode()) == Assignment(
        10.0, 0.1, (Peer("n2", "10.0.0.2", 8862),), ("10.0.0.2",)
    )
    found = read_assignment(json.dumps(WHOLE | {"throughput": True, "burst": BURST}).encode())
    assert (found.throughput, found.burst) == (True, Burst("b1", True, "10.0.0.2", 8863, 3.0, 5, 9.0))


def test_what_is_known_goes_to_the_next_leader_with_its_age_and_is_bounded() -> None:
    known = [50.0, 1.0, 0.0, 49.0, 0.2, 0.2]
    found = read_assignment(json.dumps(WHOLE | {"peers": [PEER | {"known": [5.0, *known]}], "resend": True}).encode())
    assert (found.known, found.resend) == ({"n2": (5.0, known)}, True)
    memory = LastKnown[Any](LINKS_KEPT_S)
    memory.keep({f"m{number}": (5.0, known) for number in range(200)}, now_s=100.0)
    memory.keep(found.known, now_s=110.0)
    left = memory.at(120.0)
    assert (len(left), left["n2"], left["m199"][0]) == (128, (15.0, known), 25.0)
    assert sent(known={"n2": left["n2"]})["known"] == [{"peer": "n2", "known": [15.0, *known]}]


def sent(**more: Any) -> Any:
    fields = {"since_s": 1.0, "sequence": 2, "reflector_port": 8862, "links": [], "known": {}, "known_bursts": {}}
    return json.loads(report(node="n1", **{**fields, **more}))


ENDED = {"id": "b1", "peer": "n2", "server": True, "age_s": 5.0, "sent_bps": 1e9, "received_bps": None}


def test_bursts_that_ended_go_to_the_next_leader() -> None:
    ended = {**ENDED, "more": "of a later netgang"}
    found = read_assignment(json.dumps(WHOLE | {"known_bursts": [ended]}).encode())
    assert sent(known_bursts=found.known_bursts)["known_bursts"] == [ENDED]


REFUSED = {  # case: (change, beginning of the error)
    "too many packets": ({"packet_interval_s": 0.001}, "packet_interval_s: must be 0.05 to 60"),
    "an interval that is none": ({"interval_s": True}, "interval_s: "),
    "no time": ({"interval_s": float("nan")}, "interval_s: "),
    "no peers": ({"peers": None}, "peers: must be a list"),
    "too many peers": ({"peers": [PEER] * 65}, "peers: must be a list of at most 64"),
    "a peer without a port": ({"peers": [PEER | {"port": 0}]}, "peers[0].port: "),
    "figures that are none": ({"peers": [PEER | {"known": [1.0] * 6}]}, "peers[0].known: must be 7 numbers"),
    "no figure": ({"peers": [PEER | {"known": [float("nan")] * 7}]}, "peers[0].known: "),
    "a name": ({"peers": [PEER | {"address": "n2"}]}, "peers[0].address: "),
    "all of a network": ({"peers": [PEER | {"address": "255.255.255.255"}]}, "peers[0].address: "),
    "a burst that is none": ({"burst": []}, "burst: no object"),
    "an ended burst that is none": ({"known_bursts": [1]}, "known_bursts: no object"),
    "an ended burst without an id": ({"known_bursts": [ENDED | {"id": ""}]}, "known_bursts.id: "),
    "an ended burst of nothing": ({"known_bursts": [ENDED | {"peer": 1}]}, "known_bursts.peer: "),
    "an ended burst of no time": ({"known_bursts": [ENDED | {"age_s": -1.0}]}, "known_bursts.age_s: "),
    "an ended burst of no rate": ({"known_bursts": [ENDED | {"sent_bps": True}]}, "known_bursts.rates: "),
    "too many ended bursts": ({"known_bursts": [ENDED] * 129}, "known_bursts: must be a list of at most 128"),
    "a burst without an id": ({"burst": BURST | {"id": ""}}, "burst.id: "),
    "a burst at a port of root": ({"burst": BURST | {"port": 22}}, "burst.port: "),
    "a burst without end": ({"burst": BURST | {"seconds": 11.0}}, "burst.seconds: must be 1 to 10"),
    "a burst too large": ({"burst": BURST | {"size_bytes": 10**11}}, "burst.size_bytes: "),
    "a burst to a name": ({"burst": BURST | {"address": "n2"}}, "burst.address: "),
    "a server without end": ({"burst": BURST | {"wait_s": 1e9}}, "burst.wait_s: "),
    "a group": ({"reflect_for": ["224.0.0.1"]}, "reflect_for: "),
}


@pytest.mark.parametrize(("change", "error"), REFUSED.values(), ids=REFUSED)
def test_refused_whole(change: dict[str, Any], error: str) -> None:
    with pytest.raises(AssignmentError) as found:
        read_assignment(json.dumps(WHOLE | change).encode())
    assert str(found.value).startswith(error)


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from([*WHOLE, *BURST, "burst"]), inner)).map(lambda one: json.dumps(one).encode()))  # fmt: skip
def test_any_answer_is_an_assignment_or_an_error(body: bytes) -> None:
    try:
        found = read_assignment(body)
    except AssignmentError:
        return
    assert 1.0 <= found.interval_s <= 300.0


def test_batches_wait_for_netgang_and_are_bounded() -> None:
    batches = Batches()
    for number in range(MOST_WINDOWS + 2):
        batches.add({"n2": Window(answered=10**number), "n3": Window()})
    links, mark = batches.links()
    assert [(one["peer"], one["sent"]) for one in links] == [("n2", 11111100)]
    batches.add({"n2": Window(answered=5)})
    batches.taken(mark)
    assert [one["sent"] for one in batches.links()[0]] == [5]
