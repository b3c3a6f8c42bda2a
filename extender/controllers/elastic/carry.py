"""Give a job another worker count: read it, check that it is still the same job, patch it.

Why so careful: the patch makes an operator delete running pods. Rules (docs/safety.md S11): job and pods are read from
the API server just before; whatever looks different ends the attempt; the patch names uid and resourceVersion, so an
edit in between is a conflict and wins; nothing is repeated here, the next round decides again. Workers that would go
and are another scheduler's end the attempt (docs/safety.md S1).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from extender.controllers.elastic.intent import Intent
from extender.controllers.elastic.kinds import Kind, Seen, State, read, resize_patch
from extender.controllers.events.recorder import Happening, Subject
from extender.controllers.removal.fresh_gang import Fresh, read_job, read_members, same_as_known
from extender.controllers.removal.removals import Cause, Disruptions
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotAnnouncedError, NotFoundError
from extender.notes import Notes
from extender.ports import ClusterApi
from scoring.model import Gang, Role
from scoring.scaling.change import Change as Decided


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that may be sent."""

    decided: Decided
    kind: Kind
    raw: bytes
    seen: Seen
    intent: Intent
    going: tuple[Fresh, ...]
    """Pods that its framework removes for it: those of the highest indexes."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The patch took effect, or, with `unsure`, may have."""

    unsure: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """It is as it was. `why` is for people; `refused`: the API server said no, so that trying at once is no use."""

    why: str
    refused: bool = False


_CHANGED: Final = NotSent("another client has changed it meanwhile")

Intend = Callable[[Intent | None], Intent | None]
"""The job's last intent → the one to be sent; `None`: the job is not as we left it"""


async def prepare(
    api: ClusterApi, disruptions: Disruptions, decided: Decided, kind: Kind, gang: Gang, intend: Intend, *, notes: Notes
) -> Prepared | NotSent:
    """Read job and gang now; `NotSent` if they are not what was decided on, or cannot be read."""
    key = decided.job
    try:
        raw = await api.get_object(kind.where.api_version, kind.where.kind, key.namespace, key.name)
        seen = read(kind, raw, notes=notes)
        members = await read_members(api, gang.key, gang.source)
        going = await _going(api, decided, members)
    except (ApiError, ApiUnavailableError, ValueError) as error:
        return NotSent(f"it cannot be read: {error}", refused=not isinstance(error, NotFoundError))
    intent = intend(seen.intent)
    if intent is None or seen.uid != decided.uid or seen.workers != decided.before:
        return _CHANGED
    if seen.unsafe is not None or seen.state is not State.ACTIVE:
        return NotSent(seen.unsafe or f"it is {seen.state}")
    if not same_as_known(gang, members):
        return NotSent("its pods are not those that were decided on")
    if (stranger := disruptions.stranger_among(going)) is not None:
        return NotSent(f"pod {stranger.name} of it is not netgang's", refused=True)
    return Prepared(decided, kind, raw, seen, intent, going)


async def _going(api: ClusterApi, decided: Decided, members: Sequence[Fresh]) -> tuple[Fresh, ...]:
    """The job's workers beyond those that it is to have. Errors: as `read_job`."""
    if decided.removed <= 0:
        return ()
    workers = [one for one in await read_job(api, members) if one.pod.role is Role.WORKER and not one.pod.terminal]
    return tuple(one for one in workers if one.pod.index is not None and one.pod.index >= decided.after)


async def send(disruptions: Disruptions, one: Prepared, *, note: str, notes: Notes) -> Sent | NotSent:
    """Patch the job; that it shrinks is announced before, with `note`.

    Without an answer the patch may or may not have taken effect: the watch shows which.
    """
    kind, key = one.kind, one.decided.job
    job = Subject(one.seen.api_version, kind.where.kind, key.namespace, key.name, one.seen.uid)
    try:
        patch = resize_patch(kind, one.raw, one.intent, notes=notes)
        if one.decided.removed > 0:
            await disruptions.change_owner(job, patch, Cause(Happening.JOB_SHRUNK, note), going=one.going)
        else:
            await disruptions.restore_owner(job, patch)
    except ConflictError:
        return _CHANGED
    except NotFoundError:
        return NotSent("it is gone")
    except ApiError as error:
        return NotSent(f"the API server refuses: {error.message}", refused=True)
    except (NotAnnouncedError, ValueError) as error:
        return NotSent(str(error), refused=True)
    except ApiUnavailableError:
        return Sent(unsure=True)
    return Sent()
