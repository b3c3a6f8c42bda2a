"""The kinds of jobs whose worker count may be changed, one module per family.

Rule: a kind is known or it is left alone; nothing here reaches out, raw JSON comes in and values or patches go out.
"""

from collections.abc import Mapping

from extender.controllers.elastic.kinds.indexed import JOB, JOB_SET
from extender.controllers.elastic.kinds.seen import MIN_WORKERS, Kind, Seen, State, Unsafe, read, resize_patch
from extender.controllers.elastic.kinds.training import MPI_JOB, PYTORCH_JOB, TF_JOB

__all__ = ["KINDS", "MIN_WORKERS", "Kind", "Seen", "State", "Unsafe", "read", "resize_patch"]

KINDS: Mapping[str, Kind] = {
    # kind and group, as JobKey has it → how it is read and resized
    kind.name: kind
    for kind in (JOB, TF_JOB, PYTORCH_JOB, MPI_JOB, JOB_SET)
}
