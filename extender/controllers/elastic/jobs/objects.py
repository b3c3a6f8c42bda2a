"""The jobs that may be elastic, and the autoscalers that others point at them, as the API server shows them.

Why beside the cache: nothing here is an input of the plan, and a cluster without elastic jobs pays nothing for it. One
sink for each kind, written by its reflector; what is kept of an object is `Seen`. Bounded by the jobs there are.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from extender.controllers.elastic.kinds import Kind, Seen, State, read
from extender.controllers.owners.failure_budget import decoded
from extender.notes import NoteReader
from scoring.ids import Namespace
from scoring.scaling.job import JobKey


class Jobs:
    """All jobs of the kinds that are followed; `on_change` is called after each change and must only take note."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._of_kind: dict[str, dict[str, Seen]] = {}
        """kind → `namespace/name` → job"""

    def sink(self, kind: Kind) -> "_Sink":
        """Where the reflector of this kind puts what it reads."""
        return _Sink(self._of_kind.setdefault(kind.where.name, {}), self)

    def get(self, key: JobKey) -> Seen | None:
        """The job as it was seen last."""
        return self._of_kind.get(key.kind, {}).get(f"{key.namespace}/{key.name}")

    def all(self) -> Sequence[Seen]:
        """By kind, then as they were read. Cost: O(n)."""
        return [one for jobs in self._of_kind.values() for one in jobs.values()]


class _Sink:
    """One kind's part of `Jobs`."""

    def __init__(self, held: dict[str, Seen], jobs: Jobs) -> None:
        self._held = held
        self._jobs = jobs

    def replace_in_steps(self, items: Sequence[Seen]) -> Iterator[None]:
        """See `extender.kube.watch.reflector.Sink`."""
        self._held.clear()
        self._held.update({self.key(one): one for one in items})
        self._jobs.on_change()
        yield

    def upsert(self, item: Seen) -> None:
        """See `extender.kube.watch.reflector.Sink`."""
        self._held[self.key(item)] = item
        self._jobs.on_change()

    def key(self, item: Seen) -> str:
        """See `extender.kube.watch.reflector.Sink`."""
        return f"{item.key.namespace}/{item.key.name}"

    def delete(self, key: str) -> None:
        """See `extender.kube.watch.reflector.Sink`."""
        if self._held.pop(key, None) is not None:
            self._jobs.on_change()


def reduce_by(kind: Kind, notes: NoteReader) -> Callable[[bytes], Seen | None]:
    """How a reflector reduces jobs of this kind: those that are over, and those of no interest, are not kept."""

    def reduce(raw: bytes) -> Seen | None:
        found = read(kind, raw, notes=notes)
        return found if found.state is not State.ENDED or found.intent is not None else None

    return reduce


@dataclass(frozen=True, slots=True)
class Target:
    """What a HorizontalPodAutoscaler scales; `name` is its own, `namespace/name`."""

    name: str
    job: JobKey


class Autoscalers:
    """HorizontalPodAutoscalers by what they scale."""

    def __init__(self) -> None:
        self._targets: dict[str, Target] = {}
        self._scaled: frozenset[JobKey] = frozenset()

    def scales(self, key: JobKey) -> bool:
        """Whether one of them changes this job's worker count."""
        return key in self._scaled

    def replace_in_steps(self, items: Sequence[Target]) -> Iterator[None]:
        """See `extender.kube.watch.reflector.Sink`."""
        self._keep({one.name: one for one in items})
        yield

    def upsert(self, item: Target) -> None:
        """See `extender.kube.watch.reflector.Sink`. Cost: O(autoscalers) if it scales another job than before."""
        known = self._targets.get(item.name)
        if known != item:  # their status changes every few seconds
            self._keep({**self._targets, item.name: item})

    def delete(self, key: str) -> None:
        """See `extender.kube.watch.reflector.Sink`."""
        self._keep({name: one for name, one in self._targets.items() if name != key})

    def key(self, item: Target) -> str:
        """See `extender.kube.watch.reflector.Sink`."""
        return item.name

    def _keep(self, targets: dict[str, Target]) -> None:
        self._targets = targets
        self._scaled = frozenset(one.job for one in targets.values())


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
