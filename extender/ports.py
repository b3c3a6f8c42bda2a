"""What the service needs of the world, as protocols: time, the Kubernetes API, network measurements.

Why: use cases are tested with fakes (tests/fakes), the simulator drives the same code in virtual time. Rules: a port
speaks in our own records or in plain JSON values, never in a library's types; exactly one class asks for this machine's
time, and durations come from the clock that the event loop's timers follow, so that deadlines of the loop and of our
code do not disagree. It is asked directly, because to find the running loop costs a system call.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import msgspec

from scoring import EndpointId, NodeName, PodUid

if TYPE_CHECKING:  # Whoever only needs the time need not import the planner
    from scoring.model.policy import Policy
    from scoring.model.snapshot import Snapshot
    from scoring.network.matrix import MeasurementTable
    from scoring.plan import Plan, PlannerCache

T = TypeVar("T")
Texts: TypeAlias = Mapping[str, str]  # Annotations or labels


class Clock(Protocol):
    """Time of two kinds."""

    def now_s(self) -> float:
        """Wall clock, Unix seconds: for comparing with timestamps of other machines."""

    def monotonic_s(self) -> float:
        """Never goes back: for deadlines and durations, by the clock of the event loop's timers."""


class SystemClock:
    """Clock over the machine's wall clock, which may jump when it is set, and its monotonic clock."""

    def now_s(self) -> float:
        """As `Clock`."""
        return time.time()  # noqa: TID251 - this is the adapter behind the Clock port

    def monotonic_s(self) -> float:
        """As `Clock`; safe in any thread."""
        return time.monotonic()


class Binding(msgspec.Struct, frozen=True):
    """Put pod `uid` on `node`: one POST to pods/binding."""

    namespace: str
    name: str
    uid: PodUid
    node: NodeName


class WatchEvent(msgspec.Struct, frozen=True):
    """One change of a watched kind. `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; `object` is raw JSON."""

    type: str
    object: bytes


class Page(msgspec.Struct, frozen=True):
    """A part of a list: raw JSON of each item, the list's resourceVersion, and where the next part begins."""

    items: Sequence[bytes]
    resource_version: str
    continue_token: str = ""


class ClusterApi(Protocol):
    """The calls to the Kubernetes API that netgang makes; each is in manifests' RBAC rules and nothing else is."""

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        """GET one page of a collection such as /api/v1/pods. Errors: ApiError (GoneError: start again) and others."""

    def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncIterator[WatchEvent]:
        """Watch a collection from `resource_version`, with bookmarks; ends when the server ends it."""

    async def bind(self, binding: Binding) -> None:
        """POST the Binding; returns only when the API server confirmed it. ConflictError: pod is bound or deleted."""

    async def annotate_pod(
        self, namespace: str, name: str, uid: PodUid, annotations: Texts, *, labels: Texts | None = None
    ) -> None:
        """Patch annotations, and labels, of the very pod `uid` (409 when it was replaced)."""

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """Strategic merge patch that removes our gate of the very pod `uid`; once more changes nothing. 422: never."""

    async def get_pod(self, namespace: str, name: str) -> bytes:
        """GET one pod, consistent (from the API server's storage), as raw JSON."""

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """GET an owner of pods or a node, consistent, as raw JSON. ValueError: a kind that netgang may not read."""

    def labelled_owners(self, *labels: str) -> AsyncIterator[tuple[str, str, bytes]]:
        """The apiVersion, kind and raw JSON of owners, of the kinds that can be suspended, with a `name=value`."""

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        """Merge patch of an owner or node; as it is now. ValueError: never; ConflictError: not the version it names."""

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """Evict the very pod `uid`, as PodDisruptionBudgets allow; ConflictError: it has changed since the version."""

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """Merge patch of a coscheduling PodGroup's status, as our own field manager. Errors as `patch_object`."""

    async def patch_pod_status(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """Strategic merge patch of the status of the very pod `uid`, as our own field manager (409: replaced)."""

    async def patch_node_status(self, name: str, patch: bytes) -> None:
        """Strategic merge patch of a node's status, as our own field manager."""

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """POST an events.k8s.io/v1 Event."""


class StoredText(msgspec.Struct, frozen=True):
    """A ConfigMap of netgang's own namespace with one text, as it was read."""

    resource_version: str
    text: str  # Empty: none was written
    raw: bytes = b""  # The whole object, so that what others wrote on it stays


class TextStore(Protocol):
    """A ConfigMap in which netgang keeps what must outlive it: the gangs that have started."""

    place: str  # `namespace/name`, for people

    async def read(self) -> StoredText | None:
        """The ConfigMap as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""

    async def write(self, text: str, over: StoredText) -> StoredText:
        """Replace the text of `over`; as stored. ConflictError: it has changed since; others as `read`."""


class Identity(msgspec.Struct, frozen=True):
    """The user that a token belongs to; `extra` is what an authenticator adds, key → values."""

    username: str
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Reviews(Protocol):
    """What the API server says about callers that show us a token. Errors: ApiError, ApiUnavailableError."""

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        """Whose token it is; None: no account's, or for none of `audiences` (none given: for the API server itself)."""


class EndpointInfo(msgspec.Struct, frozen=True):
    """An endpoint as its source describes it: `aliases` are labels, addresses and host names it also goes by."""

    id: EndpointId
    aliases: tuple[str, ...] = ()


class Batch(msgspec.Struct, frozen=True):
    """What one fetch of a source gave. `problems` are sentences for people: skipped cells, failed grids."""

    measurements: "MeasurementTable"
    endpoints: tuple[EndpointInfo, ...]
    fetched_at_s: float
    problems: tuple[str, ...] = ()
    rejected: Mapping[str, int] = {}  # short constant reason → number of values not used


class CurrentPlan(Protocol):
    """The plan that is in force, for controllers that act on it; the planning loop keeps it."""

    current: "Plan"
    snapshot: "Snapshot | None"  # What it was made from; `None`: there was no run yet
    unfinished: bool  # The next run begins soon, with gangs that this one left out
    policy: "Policy"  # By which settings
    cache: "PlannerCache"  # What runs may reuse of earlier ones, for looks on the event loop

    async def ask(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """The answer to a long question, in a thread of their own; it is given a cache besides."""


class NetworkSource(Protocol):
    """A place that knows measurements."""

    name: str  # Short and constant, for metrics and messages, such as `maddash` or `file`

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read the current measurements; `None`: nothing changed since the last call. Errors: NetworkSourceError.

        A source that fails in part answers with what it has, or had of the failed parts, and names them in `problems`.
        """
