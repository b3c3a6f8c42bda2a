"""Any other kind that has a worker count in `spec.replicas`, as most with a scale subresource do.

Why only by a double opt-in: nothing in such an object shows what its controller does with fewer replicas. Rules: the
operator of netgang names the kind in `elastic.scale_kinds` and grants the rights; the job's owner sets
`netgang.io/min-workers`. The count is changed in the object itself, because the scale subresource takes no annotations,
and a change without our note would look like another client's. Its pods must show their index
(`apps.kubernetes.io/pod-index`, `netgang.io/index`), and the highest must be the first to go, as with StatefulSets.
"""

import re
from dataclasses import dataclass

from extender.controllers.elastic.kinds.seen import Seen, Unsafe, Where, count, seen
from extender.controllers.owners.failure_budget import Json

_NAMED = re.compile(r"([a-z0-9.-]+)/(v[0-9]+(?:(?:alpha|beta)[0-9]+)?)/([a-z0-9]+)/([A-Z][A-Za-z0-9]*)")


@dataclass(frozen=True, slots=True)
class Scalable:
    """A kind that an operator has named."""

    where: Where
    one_by_one: bool = False

    def read(self, job: Json) -> Seen:
        """See `Kind`."""
        spec = job.get("spec") or {}
        template = spec.get("template") or {}
        return seen(
            self.where,
            job,
            template,
            workers=count(spec.get("replicas"), 1),
            unsafe=None if "replicas" in spec else Unsafe.NO_REPLICAS,
            managed_by=spec.get("managedBy"),
            managers=(),
            ends=("Complete", "Completed", "Succeeded", "Failed"),
            suspended=spec.get("suspend"),
        )

    def resized(self, job: Json, seen: Seen, workers: int) -> Json:
        """See `Kind`."""
        return {"spec": {"replicas": workers}}


def scalable(text: str) -> Scalable:
    """The kind that `GROUP/VERSION/PLURAL/KIND` names. ValueError: it names none.

    >>> scalable("apps/v1/statefulsets/StatefulSet").where.collection
    '/apis/apps/v1/statefulsets'
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not GROUP/VERSION/PLURAL/KIND, such as apps/v1/statefulsets/StatefulSet")
    group, version, plural, kind = found.groups()
    return Scalable(Where(group, version, kind, plural))
