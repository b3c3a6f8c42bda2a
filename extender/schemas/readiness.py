"""GET /readyz: whether kube-scheduler should be sent here."""

import msgspec
from msgspec import UNSET, UnsetType

from extender.schemas.network import MappedNodes, ProbeAgents, Source


class Watch(msgspec.Struct, frozen=True):
    """How the watch of a kind of objects does; counts are since the start."""

    path: str
    synced: bool
    absent: bool  # The kind is not installed.
    contact_age_s: float | None  # Seconds since the API server last said something: a list, an event, a bookmark.
    relists: int
    watches: int
    events: int
    unreadable: int  # How often an object could not be read.
    unreadable_now: int
    errors: int
    last_error: str


class CacheSizes(msgspec.Struct, frozen=True):
    """How much the cache holds."""

    version: int
    nodes: int
    pods: int
    pod_groups: int
    gangs: int
    assumed: int
    commitments: int
    excluded_pairs: int
    backing_off: int
    kept_for_daemon_sets: int


class Standing(msgspec.Struct, frozen=True):
    """Which replica leads, as far as this one knows."""

    leading: bool
    identity: str
    holder: str | None
    transitions: int | None
    terms: int
    led_for_s: float | None
    last_error: str


class NetworkSources(msgspec.Struct, frozen=True):
    """How sources and mapping do, in short."""

    sources: tuple[Source, ...]
    mapping: MappedNodes | UnsetType = UNSET
    probe: ProbeAgents | UnsetType = UNSET


class PartStates(msgspec.Struct, frozen=True):
    """The state of the parts."""

    sync: dict[str, Watch]  # kind → its watch.
    cache: CacheSizes
    notes: str | UnsetType = UNSET  # Why netgang's own notes are not written.
    started: str | UnsetType = UNSET  # Why the next netgang would not know which gangs have started.
    leadership: Standing | UnsetType = UNSET
    network: NetworkSources | UnsetType = UNSET


class Readiness(msgspec.Struct, frozen=True):
    """Whether kube-scheduler should be sent here, why not, and the state of the parts."""

    ready: bool
    reasons: tuple[str, ...]
    detail: PartStates
