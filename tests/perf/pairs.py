"""Pairs of actions whose speeds are compared: the ratio of what they take, in turns, in one process.

The first action is ours, the second a reference that does not change when ours does: the standard library, work from
nothing, or Go. CPU of the thread counts, so that what else uses the machine matters little.
"""

import gc
import json
import statistics
from collections.abc import Callable
from time import thread_time

import msgspec
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.convert import node_from_json, pod_from_json
from extender.convert.wire import Passed, decode_filter, encode_filter
from lab.bench.bed import gang, mesh, nodes, snapshot
from lab.bench.http import request
from lab.bench.scale.objects import member, node_name, raw_node
from scoring.model.pod import CPU
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.plan import PlannerCache, plan

ROUNDS = 5
_NODES = 1000
_PODS = 200
_GANGS = 300


class Pair(msgspec.Struct, frozen=True):
    """Ours and the reference; each call does the work once and may have state of its own."""

    ours: Callable[[], object]
    reference: Callable[[], object]
    repeat: int = 1  # how often each is done per turn, so that the clock's steps do not matter


def ratio(pair: Pair) -> float:
    """Median over the rounds of what ours takes by what the reference takes; every second round is turned around."""
    for action in (pair.ours, pair.reference):
        action()  # warm: imports, caches, the first connection
    found = []
    gc.collect()
    gc.freeze()  # what other tests of the process left is not looked through in the time that is measured
    try:
        for number in range(ROUNDS):
            turn = (pair.ours, pair.reference) if number % 2 == 0 else (pair.reference, pair.ours)
            took_s: dict[Callable[[], object], float] = {}
            for action in turn:
                begun_s = thread_time()
                for _ in range(pair.repeat):
                    action()
                took_s[action] = thread_time() - begun_s
            found.append(took_s[pair.ours] / max(took_s[pair.reference], 1e-9))
    finally:
        gc.unfreeze()
    return statistics.median(found)


def plan_after_one_event() -> Pair:
    listed = nodes(_NODES // 2, zones=10)
    network = mesh(listed, measured_per_zone=10)
    gangs = [gang(f"g{number:04d}", 10, cpu=8, created_s=float(number)) for number in range(_GANGS)]
    state = snapshot(listed, gangs, network)
    cache = PlannerCache()
    first = plan(state, Policy(), now_s=0.0, cache=cache)
    version = 1

    def after() -> object:
        nonlocal version
        version += 1
        used = state.used.copy()
        used[version % 5, state.table.axis.index(CPU)] += 1000
        return plan(replace(state, version=version, used=used), Policy(), now_s=0.0, cache=cache, previous=first)

    return Pair(after, lambda: plan(state, Policy(), now_s=0.0, cache=PlannerCache()))


def reading_a_filter_call() -> Pair:
    body = request("filter", _NODES).partition(b"\r\n\r\n")[2]
    return Pair(lambda: decode_filter(body), lambda: json.loads(body), repeat=20)


def writing_a_filter_answer() -> Pair:
    args = decode_filter(request("filter", _NODES).partition(b"\r\n\r\n")[2])
    others = list(args.node_names)[1:]
    answer = Passed(list(args.node_names)[:1], Reason.OTHER_NODE_PLANNED)

    def plainly() -> bytes:
        refused = dict.fromkeys(others, str(Reason.OTHER_NODE_PLANNED))
        result = {"Nodes": None, "NodeNames": others[:1], "FailedNodes": None, "FailedAndUnresolvableNodes": refused}
        return json.dumps({**result, "Error": ""}).encode()

    return Pair(lambda: encode_filter(args, answer), plainly, repeat=50)


def _running(number: int) -> bytes:
    return json.dumps(member(number, node_name(number % _NODES))).encode()


def snapshot_after_one_event() -> Pair:
    listed_nodes = [node_from_json(raw_node(number)) for number in range(_NODES)]
    listed = [pod_from_json(_running(number)) for number in range(10 * _PODS)]
    kept = ClusterCache()
    kept.nodes.replace(listed_nodes)
    kept.pods.replace(listed)
    kept.snapshot()
    changing = [one for one in listed if one.group is not None]
    turn = 0

    def after() -> object:
        nonlocal turn
        turn += 1
        kept.pods.put(replace(changing[turn % len(changing)], priority=turn))
        return kept.snapshot()

    def filled() -> object:
        cache = ClusterCache()
        cache.nodes.replace(listed_nodes)
        cache.pods.replace(listed)
        return cache.snapshot()

    return Pair(after, filled)


IN_PROCESS: dict[str, Callable[[], Pair]] = {  # name in ranges.toml → pair
    "plan after one event, by a plan from nothing": plan_after_one_event,
    "read a filter call, by json.loads": reading_a_filter_call,
    "write a filter answer, by json.dumps": writing_a_filter_answer,
    "snapshot after one event, by a cache filled anew": snapshot_after_one_event,
}
