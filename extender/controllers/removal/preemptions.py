"""Make whole gangs leave for a waiting one of higher priority (docs/how-to/preemption-and-suspension.md).

`scoring.preempt` decides which gangs leave for which, `restarts` how a gang leaves and comes back. Rules:

- All or nothing: owners and budgets of all that would leave are asked, then it is decided again, and must be the same.
- A gang for whose sake others would leave has to want that for `PATIENCE_S` (a job that ends frees its room pod by
  pod), and as long has to stand what speaks against a gang before others are looked for in its place.
- The room is claimed, and the claim noted on waiting pods of the gang, before the first one leaves.
- A note keeps the reservation after a restart, and names no other gang: who has still to leave is decided again
  (`continued`; docs/safety.md S22).
- The claim ends when the gang has its nodes, or is gone, or nothing has moved for `TIMEOUT_S`; for as long again none
  leaves for it. A gang that refuses is asked again; if none has begun to leave, the claim ends.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.recorder import pod_subject
from extender.controllers.removal.preemption_words import TIMEOUT_S, PreemptionWords, why_it_leaves
from extender.controllers.removal.restarts import Restarts
from extender.controllers.removal.suspensions import Obstacle, why_not_together
from extender.convert.decode import note_from_json
from extender.convert.pod import PREEMPTS_OPTION
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.decision_lines import Decision
from extender.signed_notes import NoteKind, Notes
from scoring import GangKey, NodeName, PodUid
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, Pod
from scoring.model.snapshot import Reservation
from scoring.plan import Plan
from scoring.preempt import Preemption, preemption

_AGAIN_S = 5.0
_FINAL_AGAIN_S = 60.0
NOTE: Final = NoteKind.PREEMPTS.value  # Annotation; see `_ClaimNote`. Empty: it is over.
_CONTENT_CHARS: Final = 3800  # Of one note, so that with its signature it is short enough to be read.

_log = logging.getLogger(__name__)


class _ClaimNote(msgspec.Struct, frozen=True):
    at_s: float  # When the room was claimed, Unix seconds.
    nodes: dict[str, str]  # Uid of a member → its node.


_CLAIM_NOTE = msgspec.json.Decoder(_ClaimNote)


class _OpenClaim(msgspec.Struct):
    claim: Reservation
    pods: frozenset[PodUid]  # Members of those that leave, on nodes when it began.
    carriers: tuple[Pod, ...]  # The pods that carry the notes.
    left: int  # How many of `pods` were there at the last look.
    until_s: float  # When it lapses; later with each pod that goes.
    noted: bool = False  # The API server has the notes: they may leave.
    recovered: bool = False  # Found by its notes: which gangs leave for it has to be decided again.
    why: Mapping[GangKey, str] = {}  # Gang that leaves → why, for its Event.
    again_s: dict[GangKey, float] = {}  # Gang that would not leave → when it is asked again.


class PreemptionClaims:
    """Claims that are open. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext, words: PreemptionWords, restarts: Restarts) -> None:
        self._context, self._words, self._restarts = context, words, restarts
        self._open: dict[GangKey, _OpenClaim] = {}
        self.backing_off: dict[GangKey, float] = {}
        """Gang that did not start although others left, or were asked to → until when no other is to leave for it."""
        self._wiping = context.background("preempt")

    @property
    def continued(self) -> frozenset[GangKey]:
        """Gangs for which a process before us made others leave, once Job controllers have asked their pods to end."""
        cache, recovered = self._context.cache, [opened.claim for opened in self._open.values() if opened.recovered]
        gangs = [(claim, cache.gang(claim.gang)) for claim in recovered]
        leaving = ((claim.gang, self._leaving(gang, claim) if gang is not None else []) for claim, gang in gangs)
        return frozenset(key for key, pods in leaving if all(pod.deleting for pod in pods))

    async def begin(self, choice: Preemption) -> None:
        """Reserve the room, note it, and let them leave; nothing happens if the notes cannot be written."""
        gang = self._context.cache.gang(choice.gang)
        snapshot = self._context.cache.snapshot()
        busy = {*snapshot.claims, *snapshot.commitments}
        busy -= {key for key, opened in self._open.items() if opened.recovered}
        if gang is None or not self._context.quiet.over or not busy.isdisjoint([choice.gang, *choice.victims]):
            return
        claim = Reservation(choice.gang, choice.assignment, choice.victims)
        try:
            notes = notes_for(gang, claim, at_s=self._context.clock.now_s(), notes=self._context.notes)
        except ValueError as error:  # a name that no API server would take
            _log.warning("no gang leaves for gang %s: %s", choice.gang, error)
            return
        if not notes:
            return
        until_s = self._context.clock.monotonic_s() + TIMEOUT_S
        carriers = tuple(pod for pod, _ in notes)
        why = {victim: why_it_leaves(choice, victim) for victim in choice.victims}
        self._open[choice.gang] = _OpenClaim(claim, choice.pods, carriers, len(choice.pods), until_s, why=why)
        self._context.cache.set_claim(choice.gang, claim)
        try:
            for carrier, note in notes:
                await self._context.api.annotate_pod(carrier.namespace, carrier.name, carrier.uid, note)
        except (ApiError, ApiUnavailableError) as error:
            self._close(choice.gang)
            self._context.decided(Decision("preempt", gang=choice.gang, reason=f"not started: {type(error).__name__}"))
            return
        if (opened := self._open.get(choice.gang)) is None:
            return  # the gang is gone, or another replica decides now
        opened.noted = True
        self._words.begun(choice)
        self._context.telemetry.preempted("begun")
        for victim in choice.victims:
            self._restarts.add(victim, why=why[victim], ended=partial(self._left, choice.gang))

    def follow(self) -> None:
        """End claims that are over, and see to those that have not left yet."""
        now_s = self._context.clock.monotonic_s()
        for key, opened in sorted(self._open.items()):
            there = self._there(opened)
            if len(there) < opened.left:
                opened.left, opened.until_s = len(there), now_s + TIMEOUT_S
            gang = self._context.cache.gang(key)
            if gang is None:
                self._end(key, "gone")
            elif quorum_of(gang).whole:
                self._context.decided(Decision("preempted", gang=key, parts={"gangs": float(len(opened.claim.givers))}))
                self._end(key, "started")
            elif now_s >= opened.until_s:
                self._words.lapsed(gang, opened.claim, [pod for pod in there if not pod.deleting])
                self._end(key, "lapsed")
                self.backing_off[key] = now_s + TIMEOUT_S
            elif opened.recovered:
                self._see_who_leaves(gang, opened)
            elif opened.noted and self._context.quiet.over:
                stay = {pod.group.key for pod in there if not pod.deleting and pod.group is not None}
                # A member whose labels changed may name a gang that was never to leave: that one stays.
                for victim in sorted((stay & opened.why.keys()) - self._restarts.under_way):
                    if now_s >= opened.again_s.get(victim, 0.0):
                        opened.again_s[victim] = now_s + _AGAIN_S
                        self._restarts.add(victim, why=opened.why[victim], ended=partial(self._left, key))
        self.backing_off = {key: until_s for key, until_s in self.backing_off.items() if until_s > now_s}

    def recover(self) -> None:
        """After a restart: reserve the room again for which other gangs had started to leave."""
        until_s = self._context.clock.monotonic_s() + TIMEOUT_S
        for key, gang in sorted(self._context.cache.snapshot().gangs.items()):
            at_s, assignment, carriers = noted_of(gang)
            if not assignment or not 0.0 <= self._context.clock.now_s() - at_s <= TIMEOUT_S:
                continue
            if not gang.actionable or quorum_of(gang).whole:
                continue
            claim = Reservation(key, assignment)
            opened = _OpenClaim(claim, frozenset(), carriers, 0, until_s, noted=True, recovered=True)
            self._open[key] = opened
            self._context.cache.set_claim(key, claim)
            self._see_who_leaves(gang, opened)

    def reset(self) -> None:
        """Know nothing, as after a restart, and reserve nothing."""
        for key in list(self._open):
            self._close(key)
        self.backing_off.clear()

    def _see_who_leaves(self, gang: Gang, opened: _OpenClaim) -> None:
        """Who leaves the room of a recovered claim: no note names any."""
        leaving = self._leaving(gang, opened.claim)
        pods = opened.pods | {pod.uid for pod in leaving}
        if pods != opened.pods:
            opened.pods, opened.left = pods, len(leaving)
            givers = {*opened.claim.givers, *(pod.group.key for pod in leaving if pod.group is not None)}
            opened.claim = replace(opened.claim, givers=tuple(sorted(givers)))
            self._context.cache.set_claim(gang.key, opened.claim)

    def _leaving(self, gang: Gang, claim: Reservation) -> list[Pod]:
        """Members of lower gangs, where the gang is to go, that end or whose owners we have suspended."""
        nodes, ours = set(claim.assignment.values()), self._restarts.under_way
        gangs = self._context.cache.snapshot().gangs.values()
        lower = (other for other in gangs if other.own and other.priority <= gang.priority and other.key != gang.key)
        pods = ((pod, other.key in ours) for other in lower for pod in other.members)
        return [pod for pod, leaves in pods if pod.node in nodes and not pod.terminal and (pod.deleting or leaves)]

    def _left(self, key: GangKey, victim: GangKey, obstacle: Obstacle | None) -> None:
        opened = self._open.get(key)
        if obstacle is None or opened is None:
            return
        now_s = self._context.clock.monotonic_s()
        there = self._there(opened)
        begun = len(there) < len(opened.pods) or any(pod.deleting for pod in there)
        if begun or not self._restarts.under_way.isdisjoint(opened.claim.givers):
            opened.again_s[victim] = now_s + (_FINAL_AGAIN_S if obstacle.final else _AGAIN_S)
            return
        self._words.stays(key, victim, obstacle.why, refused=True)
        self._end(key, "refused")
        self.backing_off[key] = now_s + _FINAL_AGAIN_S

    def _there(self, opened: _OpenClaim) -> list[Pod]:
        pods = (self._context.cache.pod(uid) for uid in opened.pods)
        return [pod for pod in pods if pod is not None and pod.node is not None and not pod.terminal]

    def _end(self, key: GangKey, outcome: str) -> None:
        carriers = [self._context.cache.pod(carrier.uid) for carrier in self._open[key].carriers]
        self._close(key)
        self._context.telemetry.preempted(outcome)
        if waiting := [pod for pod in carriers if pod is not None and pod.node is None]:
            self._wiping.start(self._wipe(waiting), f"wipe the notes of {key}")

    def _close(self, key: GangKey) -> None:
        if self._open.pop(key, None) is not None:
            self._context.cache.set_claim(key, None)

    async def _wipe(self, pods: Sequence[Pod]) -> None:
        for pod in pods:
            try:
                await self._context.api.annotate_pod(pod.namespace, pod.name, pod.uid, {NOTE: ""})
            except (ApiError, ApiUnavailableError) as error:
                _log.info("note on pod %s not taken back: %s", pod.key, error)


def notes_for(gang: Gang, claim: Reservation, *, at_s: float, notes: Notes) -> list[tuple[Pod, dict[str, str]]]:
    """The annotations that note a claim, and the pods to write them on; of a gang with too few pods a part is noted."""
    parts: list[dict[str, str]] = [{}]
    most = room = _CONTENT_CHARS - len(msgspec.json.encode(_ClaimNote(at_s, {})))
    for uid, node in sorted(claim.assignment.items()):
        if (length := len(uid) + len(node) + len('"":"",')) > room:
            parts.append({})
            room = most
        parts[-1][uid] = node
        room -= length
    waiting = [pod for pod in gang.pending if pod.uid in claim.assignment]
    contents = (msgspec.json.encode(_ClaimNote(at_s, part)).decode() for part in parts)
    return [
        (pod, {NOTE: notes.write(NoteKind.PREEMPTS, pod_subject(pod), content)})
        for pod, content in zip(waiting, contents, strict=False)
    ]


def noted_of(gang: Gang) -> tuple[float, Mapping[PodUid, NodeName], tuple[Pod, ...]]:
    """What the newest notes on waiting members say: their moment, Unix seconds, members → nodes, and who carries them.

    >>> from msgspec.structs import replace
    >>> from tests.builders import gang, pod
    >>> told = replace(pod("p"), options=(("preempts", '{"at_s":5.0,"nodes":{"uid-default-p":"n1","other":"n2"}}'),))
    >>> noted_of(gang("g", members=[told]))[:2], noted_of(gang("g", 1))
    ((5.0, {'uid-default-p': 'n1'}), (0.0, {}, ()))
    """
    read = [(pod, note_from_json(_CLAIM_NOTE, dict(pod.options).get(PREEMPTS_OPTION))) for pod in gang.pending]
    at_s = max((note.at_s for _, note in read if note is not None), default=0.0)
    newest = [(pod, note) for pod, note in read if note is not None and note.at_s == at_s]
    places = {uid: node for _, note in newest for uid, node in note.nodes.items()}
    assignment = {pod.uid: NodeName(places[pod.uid]) for pod in gang.pending if pod.uid in places}
    return at_s, assignment, tuple(pod for pod, _ in newest)


PATIENCE_S = 3.0
SPARED_S = 60.0  # How long a gang that cannot leave is left out; then its owner and the budgets are asked again.
_LEVELS_S = 5.0  # So long an answer about service levels is good, whose hours run on while the plan stays


class Preemptions(ControlLoop):
    """The one decision that is under way, and the gangs that must stay. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext, restarts: Restarts) -> None:
        super().__init__(context)
        self._restarts = restarts
        self.words = PreemptionWords(context)
        self.claims = PreemptionClaims(context, self.words, restarts)
        self._deciding = context.background("preempt")
        self._answer: tuple[Plan, object, Preemption | None] | None = None  # For which plan, to which question, which
        self._answered_s = 0.0
        self._objections: dict[GangKey, tuple[str, float]] = {}  # Gang → why, since when
        self._spared: dict[GangKey, float] = {}  # Gang that cannot leave → until when it is not asked again.
        self._wants: GangKey | None = None  # The gang for which others would leave, at the last look, and since when
        self._wants_since_s = 0.0

    def reconcile(self) -> None:
        """Follow what is under way; decide again if that is allowed."""
        now_s = self.context.clock.monotonic_s()
        self.words.tidy()
        self.claims.follow()
        self._spared = {key: until_s for key, until_s in self._spared.items() if until_s > now_s}
        if not self._deciding.busy and self.context.quiet.over:
            self._deciding.start(self._attempt(), "decide preemption")

    def reset(self) -> None:
        """Know nothing, as after a restart; a decision under way is given up."""
        self._deciding.cancel()
        self.claims.reset()
        self._wants = None
        self._objections.clear()
        self._spared.clear()

    async def _attempt(self) -> None:
        """Decide, ask owners and budgets, decide again, and start if it is still the same."""
        choice = await self._decided()
        now_s = self.context.clock.monotonic_s()
        if choice is None or choice.gang != self._wants:
            self._wants, self._wants_since_s = (None if choice is None else choice.gang), now_s
            return
        if now_s - self._wants_since_s < PATIENCE_S or await self._is_refused(choice):
            return
        again = await self._decided()
        if again is not None and (again.gang, again.pods) == (choice.gang, choice.pods):
            await self.claims.begin(again)

    async def _decided(self) -> Preemption | None:
        planner, claims, now_s = self.context.planner, self.claims, self.context.clock.now_s()
        plan, snapshot, policy = planner.current, planner.snapshot, planner.policy
        if snapshot is None or planner.unfinished:
            return None
        spared, passed_over = frozenset(self._spared), frozenset(claims.backing_off)
        asked = {"spared": spared, "passed_over": passed_over, "continued": claims.continued}
        good = now_s < self._answered_s + _LEVELS_S
        if good and self._answer is not None and self._answer[0] is plan and self._answer[1] == asked:
            return self._answer[2]
        answer: Preemption | None = await planner.ask(preemption, snapshot, plan, policy, now_s=now_s, **asked)
        self._answer, self._answered_s = (plan, asked, answer), now_s
        return answer

    async def _is_refused(self, choice: Preemption) -> bool:
        """Whether anything speaks against it; what has done so for long enough spares the gang that it is about."""
        asked = {victim: await self._restarts.obstacle(victim) for victim in choice.victims}
        objections = {victim: why for victim, why in asked.items() if why is not None}
        if not objections and (together := await why_not_together(self.context, choice.victims)) is not None:
            objections[choice.victims[-1]] = together
        now_s = self.context.clock.monotonic_s()
        before, self._objections = self._objections, {}
        for victim, why in objections.items():
            former, since_s = before.get(victim, ("", now_s))
            since_s = since_s if former == why else now_s
            if now_s - since_s < PATIENCE_S:
                self._objections[victim] = (why, since_s)
                continue
            self._spared[victim] = now_s + SPARED_S
            self.words.stays(choice.gang, victim, why, refused=False)
            self.context.telemetry.preempted("blocked")
        return bool(objections)
