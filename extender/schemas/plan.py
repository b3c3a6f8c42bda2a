"""GET /v1/plan, the part of `netgang plan` that is the same, and POST /v1/what-if: what the plan would be."""

import msgspec
from msgspec import UNSET, UnsetType

from extender.schemas import Record
from extender.schemas.queue import Weight
from scoring.what_if import Turned


class AdmittedGang(Record):
    """A gang that the plan gives nodes."""

    gang: str
    rank: int
    zone: str  # Its zones, with commas.
    score: float | None  # Mean points (0 to 100) of its links.
    committed: bool
    members: dict[str, str]  # pod → node.
    state: str | UnsetType = UNSET  # `netgang plan` alone, as `weight`: as in the queue.
    weight: Weight | UnsetType = UNSET


class WaitingGang(Record):
    """A gang that waits."""

    gang: str
    rank: int
    code: str  # Name of the reason.
    reason: str
    detail: str  # The same with numbers.
    state: str | UnsetType = UNSET  # `netgang plan` alone, as `weight`: as in the queue.
    weight: Weight | UnsetType = UNSET


class Plan(Record):
    """Admitted gangs with their nodes, waiting ones with their reasons, both in the order of their rank."""

    version: int
    admitted: tuple[AdmittedGang, ...]
    waiting: tuple[WaitingGang, ...]


class PlanInForce(Plan, kw_only=True):
    """The plan of a running service, and how far it is carried out."""

    committed: dict[str, int]  # gang → members whose nodes are committed.
    being_admitted: tuple[str, ...]  # Gangs whose gates are being opened.
    held_binds: int  # Bind calls that wait for the rest of their gang.


class PlanOfFiles(Plan, kw_only=True):
    """What `netgang plan` shows: the plan of a saved cluster with its queue."""

    order: str  # weight, fifo or another order of the settings.
    held: dict[str, tuple[str, ...]]  # gang → nodes that are reserved for it.


class Supposed(Record):
    """What would differ from the plan of now."""

    said: str = msgspec.field(name="if")  # What is supposed, as a sentence.
    at_s: float  # The moment that was supposed, Unix seconds.
    gangs: dict[str, int]  # How many would be admitted, and how many would wait.
    admitted: tuple[Turned, ...]  # Would be admitted, and wait now.
    refused: tuple[Turned, ...]  # Are admitted now, and would wait.
    moved: tuple[Turned, ...]  # Are admitted either way, elsewhere.
    other: tuple[Turned, ...]  # Are there in one of the two plans alone, or wait for another reason.
