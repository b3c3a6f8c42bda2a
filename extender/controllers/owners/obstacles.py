"""What stands in a gang's way outside the planner's view: deadlines, quotas, budgets, room for DaemonSets.

Why read when asked, and not watched: they decide nothing here, and matter when a user asks about one gang. Rules:
only for /v1/explain, a few reads for each gang, a time limit for all together, and no second read within seconds; what
cannot be read is said to be not known, with the reason, and the explanation goes out without it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from extender.cache.room import RoomForDaemons
from extender.cache.unreadable import words
from extender.controllers.context import ControllerContext
from extender.controllers.owners.failure_budget import KINDS, decoded, forbidding
from extender.controllers.removal.fresh_gang import of_this_run, read_members
from extender.convert.decode import seconds
from extender.errors import ApiError, ApiUnavailableError
from scoring.explain.words import counted, duration_text, quantity, some
from scoring.feasibility.quorum import quorum_of
from scoring.ids import GangKey
from scoring.model import Controller, Gang, Resources
from scoring.model.resources import amount

TIMEOUT_S: Final = 2.0
_BELIEVED_S: Final = 10.0
_MOST_ANSWERS: Final = 200
_OWNERS: Final = 4
_PAGE: Final = 100  # Quotas or budgets of a namespace that are looked at
_PREFIX: Final = "requests."
_MOST_KEPT: Final = 3  # DaemonSets of either kind that are named


class Circumstances:
    """Reads what one gang's explanation needs besides the snapshot."""

    def __init__(self, context: ControllerContext) -> None:
        self._api, self._clock = context.api, context.clock
        self._answers: OrderedDict[GangKey, tuple[float, Gang, tuple[str, ...]]] = OrderedDict()
        """gang → when it was read, the gang as it was, what was said"""

    async def notes(self, gang: Gang) -> tuple[str, ...]:
        """What stands in the gang's way. Takes `TIMEOUT_S` at most."""
        now_s = self._clock.monotonic_s()
        read_s, gang_then, notes = self._answers.get(gang.key, (-_BELIEVED_S, None, ()))
        if gang_then is gang and now_s - read_s < _BELIEVED_S:
            return notes
        reads = [_limited(self._deadlines(gang), "active deadline")]
        if quorum_of(gang).incomplete:
            reads.append(_limited(self._quotas(gang), "ResourceQuotas"))
        if gang.placed:
            reads.append(_limited(self._budgets(gang), "disruption budgets"))
        notes = tuple(note for part in await asyncio.gather(*reads) for note in part)
        self._answers[gang.key] = (now_s, gang, notes)
        self._answers.move_to_end(gang.key)
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)
        return notes

    async def _deadlines(self, gang: Gang) -> Sequence[str]:
        """Owners that fail after a time, whether their pods have started or not."""
        owners = {pod.owner for pod in gang.members if pod.owner is not None and pod.owner.group_kind in KINDS}
        notes: list[str] = []
        for owner in sorted(owners, key=lambda owner: owner.uid)[:_OWNERS]:
            raw = await self._api.get_object(owner.api_version, owner.kind, gang.key.partition("/")[0], owner.name)
            notes.extend(deadline_notes(owner, decoded(raw), now_s=self._clock.now_s()))
        return notes

    async def _quotas(self, gang: Gang) -> Sequence[str]:
        like = gang.members[-1].requests if gang.members else Resources()
        quotas = await self._first_page(gang, "/api/v1", "resourcequotas")
        return [note for raw in quotas for note in quota_notes(decoded(raw), like)]

    async def _budgets(self, gang: Gang) -> Sequence[str]:
        if not (budgets := await self._first_page(gang, "/apis/policy/v1", "poddisruptionbudgets")):
            return ()
        members = of_this_run(gang, await read_members(self._api, gang.key, gang.source))
        name = forbidding(budgets, [member.raw for member in members])
        text = f"PodDisruptionBudget {name} does not let its members be removed, so it is not restarted as a whole"
        return (text,) if name is not None else ()

    async def _first_page(self, gang: Gang, root: str, plural: str) -> Sequence[bytes]:
        namespace = quote(gang.key.partition("/")[0], safe="")
        return (await self._api.list_page(f"{root}/namespaces/{namespace}/{plural}", limit=_PAGE)).items


async def _limited(read: Coroutine[Any, Any, Sequence[str]], about: str) -> Sequence[str]:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await read
    except TimeoutError:
        why = f"the API server did not answer within {TIMEOUT_S:.0f} s"
    except ApiError as error:
        if error.status == 404:
            return ()
        why = "netgang has no right to read it: helm upgrade gives it" if error.status == 403 else str(error)
    except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
        why = str(error) if isinstance(error, ApiUnavailableError) else words(error)
    return (f"{about} not known: {why}",)


def deadline_notes(owner: Controller, content: Mapping[str, Any], *, now_s: float) -> list[str]:
    """That an owner's time runs while its pods wait: a Job's, or that of a Kubeflow job's runPolicy.

    >>> job = {"spec": {"activeDeadlineSeconds": 600}, "status": {"startTime": "1970-01-01T00:00:00Z"}}
    >>> deadline_notes(Controller("batch/v1", "Job", "j", "u"), job, now_s=480.0)
    ['Job j fails in 2 min whether it has started or not: activeDeadlineSeconds 600']
    """
    spec, status = content.get("spec") or {}, content.get("status") or {}
    limit = spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
    started = status.get("startTime")
    if not isinstance(limit, int) or not isinstance(started, str):
        return []
    left_s = seconds(datetime.fromisoformat(started)) + limit - now_s
    when = f"fails in {duration_text(left_s)}" if left_s > 0.0 else "is past its time"
    text = f"{owner.kind} {owner.name} {when} whether it has started or not: activeDeadlineSeconds {limit}"
    return [text]


def quota_notes(content: Mapping[str, Any], like: Resources) -> list[str]:
    """What of a ResourceQuota does not suffice for one more pod that requests `like`."""
    status = content.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    name = (content.get("metadata") or {}).get("name", "")
    notes: list[str] = []
    for key in sorted(hard):
        resource = str(key).removeprefix(_PREFIX)
        asked = 1 if resource == "pods" else next((part for what, part in like if what == resource), 0)
        left = amount(resource, hard[key]) - amount(resource, used.get(key, "0"))
        if asked > left:
            room = f"{quantity(resource, max(left, 0))} of {key}"
            notes.append(f"ResourceQuota {name} leaves {room}, and a member asks for {quantity(resource, asked)}")
    return notes


def kept_notes(kept: Sequence[RoomForDaemons], *, now_s: float) -> tuple[str, ...]:
    """The sentences, at `now_s` (Unix seconds).

    >>> from scoring.ids import NodeName
    >>> young = RoomForDaemons("kube-system/cni", (NodeName("n1"), NodeName("n2")), 90.0, 0)
    >>> for note in kept_notes([young, RoomForDaemons("a/b", (), 0.0, 1)], now_s=60.0):
    ...     print(note)
    n1, n2 keep room free for the pod of DaemonSet kube-system/cni, for another 30 s at most
    DaemonSet a/b has had no pod on 1 node in the time kept for it: no room is kept free for it there
    """
    keep = sorted((one for one in kept if one.nodes), key=lambda one: -len(one.nodes))[:_MOST_KEPT]
    over = sorted((one for one in kept if one.overdue), key=lambda one: -one.overdue)[:_MOST_KEPT]
    texts = [
        f"{some(one.nodes)} {'keeps' if len(one.nodes) == 1 else 'keep'} room free for the pod of DaemonSet "
        f"{one.daemon_set}, for another {duration_text(one.until_s - now_s)} at most"
        for one in keep
    ]
    texts += [
        f"DaemonSet {one.daemon_set} has had no pod on {counted(one.overdue, 'node')} in the time kept for it: "
        "no room is kept free for it there"
        for one in over
    ]
    return tuple(texts)
