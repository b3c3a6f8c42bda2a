"""Whether a gang may be restarted as a whole, and how its owner is suspended: what is written on it, what it then says.

docs/safety.md S8, S10, S11. Nothing is written here: verdicts and patches out. Rules: what is not known speaks against
it; an owner without our note (docs/safety.md S22) is never resumed; every patch names the version that was read.
"""

from collections.abc import Iterable, Sequence

import msgspec

from extender.controllers import failure_budget, removals
from extender.controllers.context import ControllerContext
from extender.controllers.failure_budget import KINDS, OVER, Json, NotAllowed, WhyKept
from extender.controllers.removals import Fresh
from extender.convert.decode import note_from_json
from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from extender.signed_notes import Bearer, NoteKind, NoteReader, Notes
from scoring import GangKey
from scoring.model import Controller, Gang, Phase

_LABEL, _VALUE, _RAN = "netgang.io/restart", "suspended", "ran-before"
MARK = f"{_LABEL}={_VALUE}"  # Label, with its value, of owners that we have suspended
RAN_BEFORE = f"{_LABEL}={_RAN}"  # Label of owners that we have resumed and that say what their gang had
NOTE = NoteKind.RESUME.value  # Annotation: what to resume, and why (`Note`). Without it the owner stays suspended
HISTORY = NoteKind.RESTARTS.value  # Annotation: when the gang was restarted to repair it, Unix seconds, the latest last
REMEMBERED_S = 3600.0  # Older moments leave the history


class Note(msgspec.Struct, frozen=True):
    """What we write on an owner when we suspend it."""

    gang: str  # Its name: it is in the owner's namespace
    why: str
    at_s: float


class AttainedNote(msgspec.Struct, frozen=True):
    """What we leave there, too."""

    gang: str
    hours: float  # Cluster-hours that it has had by then (`scoring.queue.weights`)


_NOTE = msgspec.json.Decoder(Note)
_ATTAINED = msgspec.json.Decoder(AttainedNote)
_MOST_MOMENTS = 200  # Restarts that a history names: a text of 4096 characters holds them
_WHY_CHARS = 500


class FreshOwner(msgspec.Struct, frozen=True):
    """An owner of pods as it was read, and what is written on it."""

    ref: Controller
    content: Json

    @classmethod
    def read(cls, api_version: str, kind: str, raw: bytes) -> "FreshOwner":
        """The object, under the name that it has. ValueError: it is none."""
        content = failure_budget.decoded(raw)
        metadata = content.get("metadata") or {}
        return cls(Controller(api_version, kind, str(metadata.get("name", "")), str(metadata.get("uid", ""))), content)

    @property
    def _metadata(self) -> Json:
        metadata: Json = self.content.get("metadata") or {}
        return metadata

    @property
    def namespace(self) -> str:
        """The namespace it is in."""
        return str(self._metadata.get("namespace", ""))

    @property
    def suspended(self) -> bool:
        """Whether the switch says suspended."""
        return bool(failure_budget.value_at(self.content, (*KINDS[self.ref.group_kind].run, "suspend")))

    @property
    def has_stopped(self) -> bool:
        """Whether its controller has seen that it is suspended: it creates no more pods."""
        return bool(failure_budget.true_condition(self.content.get("status") or {}, "Suspended"))

    @property
    def over(self) -> bool:
        """Whether it is being deleted, finished or failed: it is not to be resumed."""
        ended = failure_budget.true_condition(self.content.get("status") or {}, *KINDS[self.ref.group_kind].over)
        return bool(ended or self._metadata.get("deletionTimestamp"))

    @property
    def waits_for_the_end(self) -> bool:
        """Whether it creates a successor, or resumes, only when the pod before has ended, not when it is deleted."""
        failed = (self.content.get("spec") or {}).get("podReplacementPolicy") == "Failed"
        return failed or KINDS[self.ref.group_kind].fixed_names

    def note(self, notes: NoteReader) -> Note | None:
        """Our note on this very owner; `None`: there is none, or none of ours."""
        return note_from_json(_NOTE, self._content(NoteKind.RESUME, notes))

    def attained(self, notes: NoteReader) -> AttainedNote | None:
        """What its gang has had; `None`: not noted."""
        return note_from_json(_ATTAINED, self._content(NoteKind.ATTAINED, notes))

    def restarts(self, notes: NoteReader, *, now_s: float) -> tuple[float, ...]:
        """When its gang was restarted in the last `REMEMBERED_S`, Unix seconds, ascending."""
        text = self._content(NoteKind.RESTARTS, notes) or ""
        moments = [float(part) for part in text.split(",") if part.isascii() and part.isdigit() and len(part) < 13]
        return tuple(sorted(at_s for at_s in moments if now_s - at_s < REMEMBERED_S))

    def suspend_patch(self, note: Note, past: Sequence[float], *, notes: Notes, attained: AttainedNote | None) -> bytes:
        """Merge patch that suspends it; `past`: restarts that it is to remember, if any. ValueError: no note can."""
        written = {NoteKind.RESUME: msgspec.json.encode(Note(note.gang, note.why[:_WHY_CHARS], note.at_s)).decode()}
        if past:
            written[NoteKind.RESTARTS] = ",".join(f"{at_s:.0f}" for at_s in past[-_MOST_MOMENTS:])
        if attained is not None:
            written[NoteKind.ATTAINED] = msgspec.json.encode(attained).decode()
        annotations = {kind.value: notes.write(kind, self._bearer, content) for kind, content in written.items()}
        return self._patch({_LABEL: _VALUE}, annotations, suspend=True)

    def resume_patch(self, *, resume: bool) -> bytes:
        """Merge patch that resumes it, and takes our note off; without `resume` (another client decided) only that."""
        label = _RAN if self.carries(NoteKind.ATTAINED) else None
        return self._patch({_LABEL: label}, {NOTE: None}, suspend=False if resume else None)

    def carries(self, kind: NoteKind) -> bool:
        """Whether it has such a note, or a text in its place that is none of ours."""
        return kind.value in (self._metadata.get("annotations") or {})

    @property
    def _bearer(self) -> Bearer:  # by the uid as it was read
        uid = str(self._metadata.get("uid", ""))
        return Bearer(self.ref.api_version, self.ref.kind, self.namespace, self.ref.name, uid)

    def _content(self, kind: NoteKind, notes: NoteReader) -> str | None:
        text = (self._metadata.get("annotations") or {}).get(kind.value)
        return notes.read(kind, self._bearer, text) if isinstance(text, str) else None

    def _patch(self, labels: Json, annotations: Json, *, suspend: bool | None) -> bytes:
        """Of the version that was read; `suspend` None: the switch is left as it is."""
        version = str(self._metadata.get("resourceVersion", ""))
        switch: Json = {"suspend": suspend}
        for part in reversed(KINDS[self.ref.group_kind].run):
            switch = {part: switch}
        metadata = {"resourceVersion": version, "labels": labels, "annotations": annotations}
        return msgspec.json.encode({"metadata": metadata, **(switch if suspend is not None else {})})


class Obstacle(msgspec.Struct, frozen=True):
    """Why a gang is not restarted. `final`: it would be the same in a minute; `silent`: no Event is needed."""

    why: str
    final: bool = False
    silent: bool = False


class Case(msgspec.Struct, frozen=True):
    """A gang that may be restarted: its members, its owners and all their pods, read now."""

    gang: Gang
    members: tuple[Fresh, ...]
    owners: tuple[FreshOwner, ...]
    job: tuple[Fresh, ...]  # The members, and what else goes when the owners are suspended
    queued: bool = False  # A queue manages them

    def pods_of(self, owner: FreshOwner) -> tuple[Fresh, ...]:
        """What goes when this owner is suspended: of several owners its own, else all."""
        own = tuple(fresh for fresh in self.job if fresh.controller_uid == owner.ref.uid)
        return self.job if len(self.owners) == 1 else own or self.job


_FINISHING = Obstacle("members have succeeded, so the job is finishing", final=True, silent=True)


async def case_of(context: ControllerContext, key: GangKey) -> Case | Obstacle:
    """Whether the gang may be restarted as a whole, by what the API server says now."""
    gang = context.cache.gang(key)
    if gang is None or not gang.actionable:
        return Obstacle("the gang is gone" if gang is None else "the gang cannot be used as it is written", silent=True)
    try:
        members = await removals.read_members(context.api, key, gang.source)
        if not removals.same_as_known(gang, members):
            return Obstacle("the gang has just changed", silent=True)
        case = await _with_owners(context, gang, removals.of_this_run(gang, members))
        return case if isinstance(case, Obstacle) else await _unless_forbidden(context, case)
    except NotFoundError:
        return Obstacle("its owner is gone", silent=True)
    except (ApiError, ApiUnavailableError, ValueError) as error:
        return Obstacle(f"not all that matters could be read: {words(error)}")


async def why_not_together(context: ControllerContext, keys: Iterable[GangKey]) -> str | None:
    """Why gangs that may each leave could not all leave at once, by disruption budgets; `None`: nothing."""
    by_namespace: dict[str, list[Gang]] = {}
    for key in keys:
        if (gang := context.cache.gang(key)) is not None:
            by_namespace.setdefault(key.partition("/")[0], []).append(gang)
    for namespace, several in sorted(by_namespace.items()):
        if len(several) < 2:
            continue
        try:
            read = [(gang, await removals.read_members(context.api, gang.key, gang.source)) for gang in several]
            pods = [member for gang, members in read for member in removals.of_this_run(gang, members)]
            forbids = await removals.read_forbidding(context.api, namespace, pods)
        except (ApiError, ApiUnavailableError, ValueError) as error:
            return f"the API server did not say enough: {error}"
        if forbids is not None:
            return f"PodDisruptionBudget {forbids} does not allow {len(several)} gangs to leave at once"
    return None


async def wants_no_more(context: ControllerContext, key: GangKey) -> bool:
    """Whether an owner is deleted, or says one of `OVER` (docs/safety.md S8); not if it cannot be read."""
    gang = context.cache.gang(key)
    owners = {pod.owner for pod in gang.members if pod.owner is not None} if gang is not None else set()
    for owner in sorted(owners, key=lambda owner: owner.name):
        try:
            top = _top(owner, await removals.read_chain(context.api, key.partition("/")[0], owner))
            verdict = failure_budget.budget(top.content, ()) if isinstance(top, FreshOwner) else None
        except NotFoundError:
            return True
        except (ApiError, ApiUnavailableError, ValueError):
            continue
        if isinstance(verdict, NotAllowed) and verdict.reason in OVER:
            return True
    return False


async def _with_owners(context: ControllerContext, gang: Gang, members: tuple[Fresh, ...]) -> Case | Obstacle:
    if any(member.pod.phase is Phase.SUCCEEDED for member in members):
        return _FINISHING
    refs = {failure_budget.controller_of(member.content) for member in members}
    if None in refs:
        return Obstacle(WhyKept.BARE, final=True)
    owners, read = dict[str, FreshOwner](), list[Json]()
    for ref in sorted((ref for ref in refs if ref is not None), key=lambda ref: ref.name):
        chain = await removals.read_chain(context.api, gang.key.partition("/")[0], ref)
        read += chain
        owner = _top(ref, chain)
        if isinstance(owner, Obstacle):
            return owner
        owners[owner.ref.uid] = owner
    suspend = {failure_budget.can_suspend(owner.ref) for owner in owners.values()}
    if len(suspend) > 1:
        return Obstacle("its pods have owners of different kinds", final=True)
    job = await removals.read_job(context.api, members) if True in suspend else members
    for pod in (fresh.pod for fresh in job):
        if pod.group is not None and pod.group.key != gang.key and not pod.terminal:
            return Obstacle(f"its owner has pods of another gang too, such as {pod.name}", final=True)
    if (foreign := context.disruptions.foreign_among(job)) is not None:
        why = f"pod {foreign.name} of its owner is not netgang's (schedulerName {foreign.scheduler_name})"
        return Obstacle(why, final=True)
    queued = failure_budget.managed_by_queue([*read, *(fresh.content for fresh in job)])
    return Case(gang, members, tuple(owners.values()), job, queued)


def _top(ref: Controller, chain: Iterable[Json]) -> FreshOwner | Obstacle:
    """The owner that decides, of those above each other that begin with `ref`: a Job's own, if it has one."""
    for content in chain:
        above = failure_budget.controller_of(content)
        # A CronJob undoes nothing that is done to a Job.
        if above is None or not failure_budget.can_suspend(ref) or above.kind == "CronJob":
            return FreshOwner(ref, content)
        ref = above
    return Obstacle(f"{WhyKept.UNKNOWN_KIND} ({ref.kind} of {ref.api_version})", final=True)


async def _unless_forbidden(context: ControllerContext, case: Case) -> Case | Obstacle:
    lost = context.lost_of(case.gang.members)
    silent = {node for node in lost if context.cache.node(node) is not None}
    for owner in case.owners:
        if failure_budget.has_succeeded(owner.content):
            return _FINISHING
        suspends = failure_budget.can_suspend(owner.ref)
        verdict = failure_budget.budget(
            owner.content, () if suspends else [member.content for member in case.members if not member.pod.terminal]
        )
        if isinstance(verdict, NotAllowed):
            return Obstacle(verdict.text, final=True, silent=verdict.reason in OVER)
        if suspends and (problem := context.notes.problem):
            return Obstacle(f"the note that resumes it could not be signed: {problem}")
        if case.queued:
            return Obstacle(WhyKept.QUEUED, final=True)
        for pod in (member.pod for member in case.members) if KINDS[owner.ref.group_kind].fixed_names else ():
            if pod.node in silent and not pod.terminal:
                return Obstacle(
                    f"pod {pod.name} is on node {pod.node}, which does not answer, and its operator needs it gone "
                    f"first: waiting for node {pod.node} to be removed or to come back"
                )
    going = [member for member in case.members if member.pod.node not in lost]
    forbids = await removals.read_forbidding(context.api, case.gang.key.partition("/")[0], going)
    return case if forbids is None else Obstacle(f"PodDisruptionBudget {forbids} does not allow it")


def words(error: Exception) -> str:
    """What went wrong, and the one cause that only the administrator can take away."""
    if isinstance(error, ApiError) and error.status == 403:
        return f"netgang has no right to: helm upgrade gives it ({error})"
    return str(error)
