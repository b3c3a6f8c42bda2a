"""A small busy cluster that changes a little, again and again: for what is kept from one plan to the next."""

import random
from collections.abc import Iterator
from dataclasses import replace

from scoring.ids import NodeName
from scoring.model import Gang, Node
from scoring.model.snapshot import Commitment, Snapshot
from tests.builders import bound, gang, node, pod, snapshot

NODES = 12
ZONES = 3


def world(rng: random.Random) -> Iterator[Snapshot]:
    """A small busy cluster, changed a little each time: room, nodes, gangs, refusals, promises."""
    nodes = [node(f"n{i:02}", zone="abc"[i % ZONES], cpu="4", memory="16Gi") for i in range(NODES)]
    gangs = [_gang(rng, number) for number in range(14)]
    used = {one.name: rng.randint(0, 4) for one in nodes}
    excluded: dict[int, str] = {}
    promised: str | None = None
    away: list[Node] = []
    for version in range(1, 15):
        match rng.randrange(9):
            case 0 | 1 | 2:
                used[rng.choice(nodes).name] = rng.randint(0, 4)
            case 3:
                gangs[rng.randrange(len(gangs))] = _gang(rng, 100 + version)
            case 4:
                excluded = {rng.randrange(len(gangs)): rng.choice(nodes).name} if rng.random() < 0.5 else {}
            case 5:
                chosen = rng.randrange(len(nodes))
                nodes[chosen] = _touched(rng, nodes[chosen])
            case 6 if len(nodes) > NODES // 2:
                away.append(nodes.pop(rng.randrange(len(nodes))))
            case 6 | 7 if away:
                nodes = sorted([*nodes, _returned(rng, away.pop())], key=lambda one: one.name)
            case 7:
                new = node(f"n{rng.randrange(99):02}x{version}", zone=rng.choice("abcd"), cpu="4", memory="16Gi")
                nodes = sorted([*nodes, new], key=lambda one: one.name)
            case _:
                promised = rng.choice(gangs).key if promised is None else None
        yield _snapshot(nodes, gangs, used, excluded, promised, version)


def _gang(rng: random.Random, number: int) -> Gang:
    """Of one kind of members, or of two; some have members on nodes."""
    cpu, memory, size = str(rng.randint(1, 4)), f"{rng.randint(0, 5)}Gi", rng.randint(1, 5)
    options = rng.choice([{}, {}, {"zones": "b,a"}, {"zone-policy": "preferred"}])
    one = gang(f"g{number:03}", size, created_s=float(rng.randint(0, 2000)), options=options, cpu=cpu, memory=memory)
    if rng.random() < 0.3:
        ps = pod(f"g{number:03}-ps", gang=f"g{number:03}", cpu=str(rng.randint(1, 3)), min_available=size + 1)
        one = replace(one, members=(ps, *one.members), min_member=size + 1)
    if rng.random() < 0.2:
        one = replace(one, members=(bound(one.members[0], f"n{rng.randrange(NODES):02}"), *one.members[1:]))
    return one


def _returned(rng: random.Random, one: Node) -> Node:
    """A node that was away, perhaps in another zone now."""
    return one if rng.random() < 0.6 else node(one.name, zone=rng.choice("abcd"), cpu="5", memory="16Gi")


def _touched(rng: random.Random, one: Node) -> Node:
    """Cordoned or not, or of another size."""
    if rng.random() < 0.5:
        return replace(one, unschedulable=not one.unschedulable)
    return node(one.name, zone=one.zone, cpu=str(rng.randint(2, 6)), memory="16Gi")


def _snapshot(
    nodes: list[Node],
    gangs: list[Gang],
    used: dict[NodeName, int],
    excluded: dict[int, str],
    promised: str | None,
    version: int,
) -> Snapshot:
    there = {one.name for one in nodes}
    others = [pod(f"x-{name}", cpu=str(cpu), node=name) for name, cpu in used.items() if cpu and name in there]
    made = snapshot(nodes, gangs, pods=others, version=version)
    assignment = {
        one.uid: NodeName(f"n{i:02}")
        for listed in gangs
        if listed.key == promised
        for i, one in enumerate(listed.pending)
    }
    return replace(
        made,
        table=replace(made.table, version=version),
        exclusions={
            gangs[i].members[0].member_class: frozenset({NodeName(name)})
            for i, name in excluded.items()
            if i < len(gangs)
        },
        commitments={one.key: Commitment(one.key, assignment) for one in gangs if one.key == promised and assignment},
    )
