"""Give a job another worker count: read it afresh, make sure that it is still the job that was decided on, patch it.

Why so careful: the patch makes an operator delete running pods. Rules (S11): job and pods are read from the API server
just before; whatever looks different ends the attempt; the patch names uid and resourceVersion, so an edit in between
is a conflict and wins; nothing is repeated here, the next round decides anew.
"""

from dataclasses import dataclass

from extender.controller.fresh import read_members, same_as_known
from extender.elastic.intent import Intent, next_intent
from extender.elastic.kinds import Kind, Seen, State, read, resize_patch
from extender.elastic.records import Change, Who
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.ports import ClusterApi
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.scaling.change import Change as Decided


@dataclass(frozen=True, slots=True)
class Prepared:
    """A change that may be sent."""

    decided: Decided
    kind: Kind
    raw: bytes
    seen: Seen
    intent: Intent


@dataclass(frozen=True, slots=True)
class Sent:
    """The patch took effect, or, with `unsure`, may have."""

    intent: Intent
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """It is as it was. `why` is for people; `refused`: the API server said no, so that trying at once is no use."""

    why: str
    refused: bool = False


async def prepare(
    api: ClusterApi,
    decided: Decided,
    kind: Kind,
    gang: Gang,
    *,
    now_s: float,
    who: Who,
    why: str,
    beneficiary: GangKey | None,
) -> Prepared | NotSent:
    """Read job and gang now; `NotSent` if they are not what was decided on, or cannot be read."""
    key = decided.job
    try:
        raw = await api.get_object(kind.where.api_version, kind.where.kind, key.namespace, key.name)
        seen = read(kind, raw)
        members = await read_members(api, gang.key, gang.source)
    except (ApiError, ApiUnavailableError, ValueError) as error:
        return NotSent(f"it cannot be read: {error}", refused=not isinstance(error, NotFoundError))
    if seen.uid != decided.uid or seen.workers != decided.before:
        return NotSent("somebody else has changed it meanwhile")
    if seen.unsafe is not None or seen.state is not State.ACTIVE:
        return NotSent(seen.unsafe or f"it is {seen.state}")
    if not same_as_known(gang, members):
        return NotSent("its pods are not those that were decided on")
    intent = next_intent(
        seen.intent,
        before=decided.before,
        after=decided.after,
        at_s=now_s,
        who=who,
        why=why,
        beneficiary=beneficiary,
        one_by_one=kind.one_by_one,
    )
    return Prepared(decided, kind, raw, seen, intent)


async def next_step(api: ClusterApi, change: Change, kind: Kind, gang: Gang) -> Prepared | NotSent:
    """Read job and gang now, on the way of a change whose workers leave one by one; `NotSent`: not as we left them."""
    key = change.job
    try:
        raw = await api.get_object(kind.where.api_version, kind.where.kind, key.namespace, key.name)
        seen = read(kind, raw)
        members = await read_members(api, gang.key, gang.source)
    except (ApiError, ApiUnavailableError, ValueError) as error:
        return NotSent(f"it cannot be read: {error}", refused=not isinstance(error, NotFoundError))
    intent = seen.intent
    ours = intent is not None and intent.at_s == change.decided_s and intent.target == change.after
    if intent is None or not ours or seen.uid != change.uid or seen.workers != change.wanted:
        return NotSent("somebody else has changed it meanwhile")
    if seen.unsafe is not None or seen.state is not State.ACTIVE:
        return NotSent(seen.unsafe or f"it is {seen.state}")
    if not same_as_known(gang, members):
        return NotSent("its pods are not those that were decided on")
    decided = Decided(key, change.uid, change.wanted, change.wanted - 1)
    return Prepared(decided, kind, raw, seen, intent.one_further())


async def send(api: ClusterApi, one: Prepared) -> Sent | NotSent:
    """Patch the job. An answer that is lost leaves it open whether the patch took effect: the watch will tell."""
    kind, key = one.kind, one.decided.job
    patch = resize_patch(kind, one.raw, one.intent)
    try:
        await api.patch_object(one.seen.api_version, kind.where.kind, key.namespace, key.name, patch)
    except ConflictError:
        return NotSent("somebody else has changed it meanwhile")
    except NotFoundError:
        return NotSent("it is gone")
    except ApiError as error:
        return NotSent(f"the API server refuses: {error.message}", refused=True)
    except ApiUnavailableError:
        return Sent(one.intent, unsure=True)
    return Sent(one.intent)
