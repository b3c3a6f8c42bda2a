"""From one snapshot to the next and back: nothing that decides is lost on the way."""

import gzip
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.decision_log.change import NOTHING, Change, applied, between
from extender.decision_log.entries import Ran, encoded, read
from scoring.ids import GangKey, NodeName, ZoneName
from scoring.lengths import Length, LengthSource
from scoring.model import HostPort
from scoring.model.snapshot import Claim, Snapshot
from scoring.network.matrix import NetworkMatrix, Zones
from scoring.network.measurement import METRICS, Measurement, MeasurementTable
from tests.builders import gang, mesh, node, pod, snapshot


def equal(one: Snapshot, other: Snapshot) -> bool:
    """Field by field; arrays by content, networks by what they answer."""
    names = one.table.names
    blocks = [state.network.block(names, names) for state in (one, other)]
    arrays = [(one.used, other.used), (one.table.allocatable, other.table.allocatable)] + [
        (getattr(blocks[0], name), getattr(blocks[1], name)) for name in ("loss_ratio", "delay_ms", "throughput_bps")
    ]
    plain = {field.name for field in fields(Snapshot)} - {"table", "used", "network"}
    return (
        all(getattr(one, name) == getattr(other, name) for name in plain)
        and one.table.nodes == other.table.nodes
        and (one.table.version, one.table.uncounted) == (other.table.version, other.table.uncounted)
        and one.network.version == other.network.version
        and all(np.array_equal(a, b, equal_nan=True) for a, b in arrays)
    )


def carried(change: Change) -> Change:
    [entry] = read(gzip.compress(encoded(Ran(0.0, change, ""))))
    assert isinstance(entry, Ran)
    return entry.change


@st.composite
def states(draw: st.DrawFn) -> Snapshot:
    names = [NodeName(name) for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, min_size=1))]
    nodes = [node(name, zone=draw(st.sampled_from("xy")), gpu=draw(st.sampled_from([0, 2]))) for name in names]
    gangs = [
        gang(key, draw(st.integers(1, 3)), cpu=draw(st.sampled_from(["1", "2"])), min_member=1)
        for key in draw(st.lists(st.sampled_from(["g", "h", "i"]), unique=True))
    ]
    others = [pod(f"p{name}", node=name) for name in draw(st.lists(st.sampled_from(names), unique=True))]
    first = gangs[0] if gangs else None
    state = snapshot(
        nodes,
        gangs,
        pods=others,
        network=draw(st.sampled_from([mesh("abcdef"), mesh("abc", loss_ratio=0.5)])),
        version=draw(st.integers(0, 9)),
        commitments={first.key: {first.members[0].uid: names[0]}} if first and draw(st.booleans()) else None,
        host_ports={names[0]: frozenset({HostPort("TCP", "0.0.0.0", 80)})} if draw(st.booleans()) else {},
        exclusions={first.members[0].member_class: frozenset({NodeName(names[0])})}
        if first and draw(st.booleans())
        else {},
        backing_off_until_s={GangKey("default/g"): draw(st.floats(0, 9))} if draw(st.booleans()) else {},
        uncounted=["example.com/card"] if draw(st.booleans()) else (),
        claims={first.key: Claim(first.key, {}, (GangKey("default/i"),))} if first and draw(st.booleans()) else {},
    )
    return replace(state, attained_h={GangKey("default/g"): draw(st.floats(0, 9))} if draw(st.booleans()) else {})


def test_lengths_are_carried_and_old_logs_have_none() -> None:
    length = Length(LengthSource.LEARNED, (1.0, 2.0, 3.0, 4.0, 5.0))
    known = replace(gang("g", 2), length=length)
    state = snapshot([node("a")], [known, gang("h", 1)])
    now = applied(NOTHING, carried(between(NOTHING, state)))
    assert [now.gangs[GangKey(f"default/{name}")].length for name in "gh"] == [length, None]
    assert equal(now, state)


@given(st.lists(states(), min_size=1, max_size=4))
def test_a_chain_of_changes_gives_every_snapshot_again(chain: list[Snapshot]) -> None:
    now = before = NOTHING
    for after in chain:
        now = applied(now, carried(between(before, after)))
        assert equal(now, after)
        before = after


def test_what_did_not_change_is_not_written() -> None:
    nodes = [node(f"n{i:04}") for i in range(1000)]
    gangs = [gang(f"g{i}", 3) for i in range(300)]
    before = snapshot(nodes, gangs)
    used = before.used.copy()
    used[7] += 1
    after = Snapshot(version=2, table=before.table, used=used, gangs=before.gangs, network=before.network)
    change = between(before, after)
    assert (change.nodes, change.gangs, change.network, change.used.nodes) == ((), (), None, ("n0007",))
    assert len(encoded(Ran(0.0, change, ""))) < 2000


def test_a_network_with_estimates_is_carried_whole() -> None:
    nodes = [node(f"n{i}", zone="xy"[i % 2]) for i in range(4)]
    whole = mesh(nodes[:3])
    zones = Zones({one.name: ZoneName(str(one.zone)) for one in nodes}, dict.fromkeys(METRICS))
    table = {"": _table_of(whole)}
    network = NetworkMatrix.merged(table, endpoint_of=whole.endpoint_of, now_s=0.0, zones=zones)
    state = snapshot(nodes, network=network)
    assert state.network.estimates
    assert equal(applied(NOTHING, carried(between(NOTHING, state))), state)


def _table_of(network: NetworkMatrix) -> MeasurementTable:
    found: list[Measurement] = []
    for metric in METRICS:
        rows, cols, values, _ = network.measured_values(metric)
        ends = network.endpoints
        found += [
            Measurement(ends[row], ends[col], metric, value, 0.0)
            for row, col, value in zip(rows.tolist(), cols.tolist(), values.tolist(), strict=True)
        ]
    return MeasurementTable.of(found)


def test_a_change_of_another_cluster_is_refused() -> None:
    one, two = snapshot([node("a")]), snapshot([node("b")])
    change = between(one, two)
    with pytest.raises(ValueError, match="node a leaves"):
        applied(two, change)
    change = between(snapshot([node("a")], [gang("g", 1)]), snapshot([node("a")]))
    with pytest.raises(ValueError, match="gang default/g leaves"):
        applied(one, change)
