"""Put members on the nodes that a search found in certain zones, and say how well these are connected."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import Role
from scoring.model.policy import ScorePolicy
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.outcome import Placed
from scoring.plan.run import Run, Wish
from scoring.score.links import Links
from scoring.selection import Selected


def place_in(
    run: Run, ask: Ask, members: ByClass, wish: Wish, zones: tuple[ZoneName, ...], *, score: ScorePolicy
) -> Placed | None:
    """Place `members`, of which `wish` was made, in `zones` together and take their room; `None`: they do not fit."""
    rows = run.rows(zones)
    selected = run.search.place(wish, zones, method=ask.options.selection, score=score)
    if selected is None:
        return None
    nodes: dict[PodUid, NodeName] = {}
    ends: list[tuple[Role, NodeName]] = []
    used: set[ZoneName] = set()
    for (member_class, pods), chosen in zip(members, selected.rows, strict=True):
        at: list[int] = rows.take(chosen).tolist() if chosen else []
        names = [run.table.names[row] for row in at]
        used |= run.taken.take_rows(member_class, at)
        nodes.update(zip([pod.uid for pod in pods], names, strict=True))
        ends.extend([(member_class.role, name) for name in names])
    points = mean_points(run.scored.links(zones, score), wish, selected, _sibling_rows(run, wish, rows))
    return Placed(tuple(sorted(used)), nodes, tuple(ends), points)


def mean_points(scores: Links, wish: Wish, selected: Selected, siblings: Sequence[tuple[Role, int]]) -> float | None:
    """Mean points over the pairs that talk, placed siblings included; `None` when there is no such pair."""
    at = [row for rows in selected.rows for row in rows]
    ps = [mc.role is Role.PS for (mc, _), rows in zip(wish.classes, selected.rows, strict=True) for _ in rows]
    fresh = len(at)
    at.extend([row for _, row in siblings])
    ps.extend([role is Role.PS for role, _ in siblings])
    counted, total = _counted_pairs(None if wish.all_reduce else tuple(ps), len(at), fresh)
    if not total:
        return None
    return float(scores.points_among(np.array(at, np.int64))[counted].sum() / total)


@lru_cache(maxsize=64)
def _counted_pairs(ps: tuple[bool, ...] | None, ends: int, fresh: int) -> tuple[NDArray[np.bool_], int]:
    """Which of the pairs (ends, ends) count, each once, those among siblings not; and how many. `ps`: `None`: all."""
    counted = np.tri(ends, k=-1, dtype=np.bool_).T
    if ps is not None:
        is_ps = np.array(ps, np.bool_)
        counted = counted & (is_ps[:, None] != is_ps)
    counted = np.array(counted)
    counted[fresh:] = False
    return counted, int(counted.sum())


def _sibling_rows(run: Run, wish: Wish, rows: Ints) -> list[tuple[Role, int]]:
    """Role and index in `rows` of siblings that are there."""
    if not wish.siblings:
        return []
    local = {row: i for i, row in enumerate(rows.tolist())}
    found = ((role, run.table.index.get(node)) for role, node in wish.siblings)
    return [(role, local[row]) for role, row in found if row is not None and row in local]
