"""The kinds of jobs whose worker count may be changed, one module per family, and those that are only shown.

Rule: a kind is known or it is left alone; nothing here reaches out, raw JSON comes in and values or patches go out.
"""

from collections.abc import Iterable, Mapping

from extender.controllers.elastic.kinds.indexed import JOB, JOB_SET, TRAIN_JOB
from extender.controllers.elastic.kinds.scalable import scalable
from extender.controllers.elastic.kinds.seen import Kind, Seen, State, Unsafe, Where, read, resize_patch
from extender.controllers.elastic.kinds.training import JAX_JOB, MPI_JOB, PADDLE_JOB, PYTORCH_JOB, TF_JOB, XGBOOST_JOB

__all__ = [
    "KINDS", "TRAIN_JOB", "Kind", "Seen", "State", "Unsafe", "Where", "kinds_with", "read", "resize_patch",
]  # fmt: skip

KINDS: Mapping[str, Kind] = {
    # kind and group, as JobKey has it → how it is read and resized
    kind.where.name: kind
    for kind in (JOB, TF_JOB, PYTORCH_JOB, MPI_JOB, JOB_SET, PADDLE_JOB, JAX_JOB, XGBOOST_JOB)
}


def kinds_with(named: Iterable[str]) -> Mapping[str, Kind]:
    """KINDS, and those that an operator has named; see `scalable`. What KINDS knows better stays as it is there."""
    more = (scalable(text) for text in named)
    return {**{kind.where.name: kind for kind in more}, **KINDS}
