"""The jobs that may be elastic, and the autoscalers that others point at them, as the API server shows them.

Why beside the cache: nothing here is an input of the plan. One sink for each kind, written by its reflector.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from extender.controllers.elastic.kinds import JobKind, NotNow, Seen, read
from extender.controllers.failure_budget import decoded
from extender.notes import NoteReader
from scoring.ids import Namespace
from scoring.scaling.job import JobKey

T = TypeVar("T")


@dataclass(eq=False, repr=False)
class Followed(Generic[T]):
    """The objects of one kind; an `extender.kube.reflector.Sink`."""

    key: Callable[[T], str]
    on_change: Callable[[], None]  # Called when an object is another than before; must only take note
    items: dict[str, T] = field(default_factory=dict, init=False)  # `namespace/name` → what is kept of it

    def list_begun(self, keys: Set[str]) -> None:
        """See `Sink`."""
        for gone in self.items.keys() - keys:
            self.remove(gone)

    def list_ended(self) -> None:
        """See `Sink`."""

    def put(self, item: T) -> None:
        """See `Sink`."""
        key = self.key(item)
        if self.items.get(key) != item:
            self.items[key] = item
            self.on_change()

    def remove(self, key: str) -> None:
        """See `Sink`."""
        if self.items.pop(key, None) is not None:
            self.on_change()


class Target(msgspec.Struct, frozen=True):
    """What a HorizontalPodAutoscaler scales."""

    name: str  # Its own, `namespace/name`
    job: JobKey


class FollowedJobs:
    """All that is followed; `on_change` as in `Followed`."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.autoscalers: Followed[Target] = Followed(lambda one: one.name, lambda: self.on_change())
        self._of_kind: dict[str, Followed[Seen]] = {}

    def sink(self, kind: JobKind) -> Followed[Seen]:
        """Where the reflector of this kind puts what it reads."""
        return self._of_kind.setdefault(
            kind.name, Followed(lambda seen: f"{seen.key.namespace}/{seen.key.name}", lambda: self.on_change())
        )

    def get(self, key: JobKey) -> Seen | None:
        """The job as it was seen last."""
        held = self._of_kind.get(key.kind)
        return held.items.get(f"{key.namespace}/{key.name}") if held is not None else None

    def all(self) -> Sequence[Seen]:
        """By kind, then as they were read. Cost: O(n)."""
        return [one for held in self._of_kind.values() for one in held.items.values()]


def reduce_by(kind: JobKind, notes: NoteReader) -> Callable[[bytes], Seen | None]:
    """How a reflector reduces jobs of this kind: those that are over, and of no interest, are not kept."""

    def reduce(raw: bytes) -> Seen | None:
        seen = read(kind, raw, notes=notes)
        return seen if seen.rests is not NotNow.ENDED or seen.intent is not None else None

    return reduce


def target_from_json(raw: bytes) -> Target:
    """What an autoscaling/v2 HorizontalPodAutoscaler scales. ValueError: it cannot be read.

    >>> ref = b'"scaleTargetRef":{"apiVersion":"kubeflow.org/v1","kind":"PyTorchJob","name":"j"}'
    >>> str(target_from_json(b'{"metadata":{"name":"h","namespace":"a"},"spec":{' + ref + b"}}").job)
    'PyTorchJob.kubeflow.org/a/j'
    """
    try:
        found = decoded(raw)
        metadata, ref = found["metadata"], found["spec"]["scaleTargetRef"]
        group = str(ref.get("apiVersion", "")).rpartition("/")[0]
        namespace = str(metadata["namespace"])
        key = JobKey(Namespace(namespace), f"{ref['kind']}.{group}", str(ref["name"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a HorizontalPodAutoscaler: {error!r}") from error
    return Target(f"{namespace}/{metadata['name']}", key)
