"""Gangs whose members have no place or lost it: evict what cannot be whole, admit anew, restart what broke.

docs/safety.md S1, S8, S10, S11.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.failure_budget import KINDS, OVER, NotAllowed, WhyKept, can_suspend
from extender.controllers.recorder import Happening, pod_subject
from extender.controllers.removal.restarts import Restarts
from extender.controllers.removal.suspensions import Obstacle, wants_no_more
from extender.controllers.removals import Cause, Fresh, Verdicts, read_members, read_verdicts, same_as_known
from extender.errors import ApiError, ApiUnavailableError, Backoff, ConflictError, NotFoundError
from extender.runtime.decision_lines import Decision
from extender.runtime.slices import Steps
from scoring import GangKey, NodeName, PodUid
from scoring.feasibility.quorum import Quorums, quorum_of
from scoring.model import Gang, Phase
from scoring.model.policy import Repair, gang_options
from scoring.plan import Plan
from scoring.repair import Crew, PlaceLoss, due_s, is_pinned, observe, stranded, words_of

_CAUSE: Final = Cause(
    Happening.EVICTED,
    "The gang did not become whole in time and there is no room for the rest of its minimum: its "
    "pods on nodes are evicted, because they use room in vain.",
)


class Evictions:
    """Carries out the permit machine's evictions of gangs that were never whole: their members use room in vain.

    Rules: never a gang with a problem, such as members of another scheduler, nor one that looks different in a fresh
    list than in the cache; an owner that would fail for it keeps its pods, and its user gets an Event.
    """

    def __init__(self, context: ControllerContext, *, refused: Callable[[GangKey, Sequence[PodUid]], None]) -> None:
        self._context = context
        self._refused = refused
        self._evicting = context.background("evict")

    def add(self, gang: GangKey, uids: Sequence[PodUid]) -> None:
        """Evict these members of the gang, or report them as refused."""
        self._evicting.start(self._evict(gang, uids), f"evict {gang}")

    async def _evict(self, key: GangKey, uids: Sequence[PodUid]) -> None:
        stayed = set(uids)
        try:
            members = await self._as_the_cache_says(key, uids) if self._context.quiet.over else None
            if members is not None:
                stayed &= {member.pod.uid for member in members}  # others are gone
            for member in members or ():
                pod = member.pod
                try:
                    await self._context.disruptions.evict(member, _CAUSE, among=members or ())
                except (ApiError, ApiUnavailableError) as error:
                    why = f"refused: {type(error).__name__}"
                    self._context.decided(Decision("evict", pod.key, key, reason=why))
                    continue
                stayed.discard(pod.uid)
                self._context.telemetry.evicted("partial")
                self._context.decided(Decision("evict", pod.key, key, pod.node or ""))
        except (asyncio.CancelledError, GeneratorExit):
            stayed.clear()  # the process ends: nothing may begin because of it
            raise
        finally:
            if stayed:
                self._refused(key, tuple(uid for uid in uids if uid in stayed))

    async def _as_the_cache_says(self, key: GangKey, uids: Sequence[PodUid]) -> Sequence[Fresh] | None:
        """Those of `uids` that are there now, if the gang is as the cache says; `None`: none is to be removed."""
        gang = self._context.cache.gang(key)
        if gang is None or not gang.actionable:
            return None
        try:
            fresh = await read_members(self._context.api, key, gang.source)
            if not same_as_known(gang, fresh):
                return None
            theirs = [member for member in fresh if member.pod.uid in uids]
            verdicts = await read_verdicts(self._context.api, theirs)
        except (ApiError, ApiUnavailableError, ValueError):
            return None
        for owner, (verdict, _) in verdicts.items():  # pods of no owner, or of a kind that is not known, may go
            decides = owner is not None and owner.group_kind in KINDS
            if isinstance(verdict, NotAllowed) and (decides or verdict.reason is WhyKept.QUEUED):
                if verdict.reason not in OVER:
                    self._context.decided(Decision("evict", theirs[0].pod.key, key, reason=verdict.reason))
                    vain = "The gang did not become whole, and this pod uses room in vain."
                    note = f"{vain} It is not removed, because {verdict.text}"
                    for member in theirs:
                        self._context.events.post(pod_subject(member.pod), Happening.NOT_DISRUPTED, note, "partial")
                return None
        return theirs


GONE_GRACE_S = 5.0  # A node replaced by one of the same name, or a watch that brings two changes apart, is no loss
_KEPT_S = 30.0
_AGAIN_S = 5.0  # After an attempt that something unexpected ended
_REFUSED_S = 10.0  # What kube-scheduler refuses for this long it does not refuse for a moment's lag
_REFUSED_AGAIN_S = 60.0  # After an owner's budget said no: it costs a read of pods and owner each time

_MOST_TRIES = 2  # Attempts in a row to suspend an owner, before its pods are removed one by one if it can afford that


class _StrandedPod(msgspec.Struct):
    since_s: float
    gone_since_s: float | None  # Since when all its nodes are gone; `None`: some exist, or it has a place just now
    seen_s: float


class Repins(ControlLoop):
    """Stranded pods (`scoring.repair`), removed so that their owners make new ones. Bounded by them.

    - When: all listed nodes are gone for `GONE_GRACE_S`, or the pod finds no place on them for the repin timeout;
      sooner where filters that we do not model refuse them and there is room elsewhere. A place that lasted less than
      `_KEPT_S` does not restart the clock.
    - Only pods whose controller recreates them within its failure budget; all others get an Event. Where we had named
      nodes that refuse the pod it must cost nothing (docs/safety.md S27). Where one of a gang that never started must
      stay, all stay.
    - How: a gang that never started is suspended and resumed where its owner would count removed pods as failed; else
      one gang at a time, one pod after the other. Afterwards only the gang's zone is named.
    """

    def __init__(
        self, context: ControllerContext, restarts: Restarts, *, removed: Callable[[GangKey], None], timeout_s: float
    ) -> None:
        """`removed` is called with each gang whose pods are removed: name no nodes for it again."""
        super().__init__(context)
        self._restarts, self._removed, self._timeout_s = restarts, removed, timeout_s
        self.losses: Mapping[GangKey, Mapping[PodUid, PlaceLoss]] = {}  # Stranded members, by the plan asked last
        self._plan: Plan | None = None  # That plan
        self._attempt = context.background("repin")
        self._tries: dict[GangKey, tuple[int, str]] = {}  # gang → failed suspensions, why
        self._waits: dict[PodUid, _StrandedPod] = {}
        self._not_before_s: dict[GangKey, float] = {}  # gang → when to try again

    async def reconcile(self) -> None:
        """Note which pods are stranded, and start with the longest stranded gang, if one is due."""
        losses, now_s = await self._stranded(), self.context.clock.monotonic_s()
        by_pod = {uid: loss for theirs in losses.values() for uid, loss in theirs.items()}
        self._waits |= {uid: _StrandedPod(now_s, None, now_s) for uid in by_pod if uid not in self._waits}
        for uid, wait in list(self._waits.items()):
            if by_pod.get(uid) is not PlaceLoss.GONE:
                wait.gone_since_s = None
            elif wait.gone_since_s is None:
                wait.gone_since_s = now_s
            if uid in by_pod:
                wait.seen_s = now_s
            elif now_s - wait.seen_s > _KEPT_S:
                del self._waits[uid]
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if at_s > now_s}
        self._tries = {key: tried for key, tried in self._tries.items() if key in losses}
        if self._attempt.busy or not self.context.quiet.over:
            return
        able = losses.keys() - self._not_before_s.keys() - self._restarts.under_way
        due = {key: [uid for uid, loss in losses[key].items() if self._is_due(uid, loss, now_s)] for key in able}
        if order := sorted((min(self._waits[uid].since_s for uid in uids), key) for key, uids in due.items() if uids):
            key = order[0][1]
            self._attempt.start(self._repin(key, due[key]), f"repin {key}")

    def reset(self) -> None:
        """Know nothing, as after a restart; an attempt under way comes to its end."""
        self._waits.clear()
        self._not_before_s.clear()
        self._tries.clear()

    async def _stranded(self) -> Mapping[GangKey, Mapping[PodUid, PlaceLoss]]:
        planner = self.context.planner
        plan, snapshot = planner.current, planner.snapshot
        if snapshot is not None and self._plan is not plan:
            now_s = self.context.clock.now_s()
            self.losses = await planner.ask(stranded, snapshot, plan, planner.policy, now_s=now_s)
            self._plan = plan
        return self.losses

    def _is_due(self, uid: PodUid, loss: PlaceLoss, now_s: float) -> bool:
        wait, most_s = self._waits[uid], self._timeout_s if loss is not PlaceLoss.REFUSED else _REFUSED_S
        gone_s = now_s - wait.gone_since_s if wait.gone_since_s is not None else 0.0
        return gone_s >= GONE_GRACE_S or now_s - wait.since_s >= most_s

    async def _repin(self, key: GangKey, uids: Sequence[PodUid]) -> None:
        again_s = _AGAIN_S
        try:
            losses = (await self._stranded()).get(key, {})
            verdicts = await read_verdicts(self.context.api, await self._read(key, uids, losses))
            if self._suspend(key, verdicts):
                return
            removable: list[tuple[Fresh, str]] = []
            for owner, (verdict, theirs) in verdicts.items():
                refused = any(losses[member.pod.uid] is PlaceLoss.REFUSED for member in theirs)
                if isinstance(verdict, int) and verdict and refused:
                    # We named nodes that refuse the pods: their owner is not to pay for it.
                    verdict = NotAllowed(WhyKept.OUR_MISTAKE, self._tries.get(key, (0, ""))[1])
                if isinstance(verdict, NotAllowed):
                    again_s = _REFUSED_AGAIN_S
                    self.context.decided(Decision("repin", theirs[0].pod.key, key, reason=verdict.reason))
                    stays = f"The pod is not removed, because {verdict.text}: delete it for another to be admitted"
                    for pod in (member.pod for member in theirs) if verdict.reason not in OVER else ():
                        loss, about = losses[pod.uid], pod_subject(pod)
                        self.context.events.post(about, Happening.NOT_DISRUPTED, f"{loss}. {stays}", loss.name)
                elif owner is not None:
                    goes = f"Removed for {owner.kind} {owner.name} to create another."
                    removable.extend((member, f"{losses[member.pod.uid]}. {goes}") for member in theirs)
            if len(removable) == len(uids) or self._has_started(key):
                await self._remove(key, removable)
        except (ApiError, ApiUnavailableError, ValueError):
            return  # looked at again soon
        finally:
            self._not_before_s[key] = self.context.clock.monotonic_s() + again_s

    async def _read(self, key: GangKey, uids: Sequence[PodUid], losses: Mapping[PodUid, PlaceLoss]) -> list[Fresh]:
        """The pods as they are now. ValueError: one is not as the cache says, or a removal is under way."""
        cache, gang = self.context.cache, self.context.cache.gang(key)
        if gang is None or any(pod.deleting and pod.node is None for pod in gang.members):
            raise ValueError(f"pods of {key} are being removed")
        pods: list[Fresh] = []
        for uid in uids:
            cached = cache.pod(uid)
            if cached is None or uid not in losses:
                raise ValueError(f"pod {uid} is not stranded any more")
            raw = await self.context.api.get_pod(cached.namespace, cached.name)
            fresh = Fresh.read(raw, notes=self.context.notes)
            pod = fresh.pod
            same = pod.member_class.constraints.affinity == cached.member_class.constraints.affinity
            waits = pod.uid == uid and pod.phase is Phase.PENDING and is_pinned(pod) and cache.is_own(pod)
            if not (same and waits):
                raise ValueError(f"pod {pod.key} has changed")
            pods.append(fresh)
        return pods

    def _suspend(self, key: GangKey, verdicts: Verdicts) -> bool:
        """Whether the gang's owners are to be suspended, as removals would cost them failures and this may not."""
        tries, _ = self._tries.get(key, (0, ""))
        spared = (WhyKept.BACKOFF_LIMIT, WhyKept.INDEX_LIMIT, WhyKept.FAILURE_POLICY)
        answers = [verdict for verdict, _ in verdicts.values()]
        costs = any(answer.reason in spared if isinstance(answer, NotAllowed) else answer > 0 for answer in answers)
        able = all(owner is not None and can_suspend(owner) for owner in verdicts)
        if not costs or not able or tries >= _MOST_TRIES or self._has_started(key):
            return False
        self._restarts.add(key, why="no node that its pods were admitted to takes them", ended=self._suspended)
        return True

    def _suspended(self, key: GangKey, obstacle: Obstacle | None) -> None:
        if obstacle is None:
            self._removed(key)
            self.context.decided(Decision("repin", gang=key))
        else:
            tries = _MOST_TRIES if obstacle.final else self._tries.get(key, (0, ""))[0] + 1
            self._tries[key] = tries, obstacle.why

    def _has_started(self, key: GangKey) -> bool:
        gang = self.context.cache.gang(key)
        return gang is not None and quorum_of(gang).started

    async def _remove(self, key: GangKey, removable: Sequence[tuple[Fresh, str]]) -> None:
        for member, note in removable:
            pod = member.pod
            if pod.uid not in (await self._stranded()).get(key, {}) or not self.context.quiet.over:
                return
            try:
                among = [each for each, _ in removable]
                await self.context.disruptions.evict(member, Cause(Happening.EVICTED, note), among=among)
            except (ConflictError, NotFoundError):
                continue  # it changed in the last moment: the watch will show it
            except (ApiError, ApiUnavailableError) as error:
                self.context.decided(Decision("repin", pod.key, key, reason=f"refused: {type(error).__name__}"))
                return
            self.context.telemetry.evicted("repin")
            self._removed(key)
            self.context.decided(Decision("repin", pod.key, key))


PATIENCE_S = 5.0  # A loss gets an Event when it has stood so long
_ASK_AGAIN = Backoff(5.0, 120.0)  # After a refusal that need not last


class _Watched(msgspec.Struct):
    gang: Gang
    crew: Crew
    posted: str = ""
    asked: int = 0  # How often it was handed to `restarts` since it broke
    ask_again_s: float = 0.0  # When it may be handed to `restarts` again
    given_up: bool = False  # It cannot be restarted, and is given successors instead
    refused: str = ""  # Why it was not restarted when that was asked last
    owner_over: bool | None = None  # Its owner wants no more pods; `None`: it has yet to be asked before the next Event
    over: bool = False  # It was restarted: the members that run next are others


class Repairs(ControlLoop):
    """The crews of all gangs that run. Bounded by the gangs that exist.

    The planner places successors; this says what is waited for, and hands the gang to `restarts` where that is
    configured. One that cannot be restarted is given successors; it is not asked for again until it was whole.
    """

    def __init__(
        self, context: ControllerContext, restarts: Restarts, *, silent: Callable[[], frozenset[NodeName]]
    ) -> None:
        """`silent`: nodes that exist and have not answered for too long."""
        super().__init__(context)
        self._restarts, self._silent = restarts, silent
        self._asking = context.background("repair")
        self._quorums = Quorums()
        self._watched: dict[GangKey, _Watched] = {}
        self._looked_at: dict[GangKey, Gang] = {}  # All gangs as they were at the last look
        self._nodes: tuple[int, frozenset[NodeName]] = (0, frozenset())  # version, silent ones

    def reconcile(self) -> Steps[None]:
        """See what is lost. Cost: O(gangs + members that changed, all when nodes did)."""
        now_s = self.context.clock.monotonic_s()
        self._quorums.keep_only(self.context.cache.gang)
        snapshot, under_way = self.context.cache.snapshot(), self._restarts.under_way
        nodes = snapshot.table.version, self._silent()
        same_nodes, self._nodes = nodes == self._nodes, nodes
        before, after = self._watched, dict[GangKey, _Watched]()
        looked_at = self._looked_at
        mine = self._looked_at = dict(snapshot.gangs)
        for key, gang in snapshot.gangs.items():
            yield
            if self._looked_at is not mine:
                return  # all was forgotten meanwhile
            watched = before.get(key)
            over, broken = (watched.over, watched.crew.broken) if watched is not None else (False, False)
            same = same_nodes and looked_at.get(key) is gang and not broken
            if not over and (key in under_way or same):
                if watched is not None:
                    after[key] = watched
                continue
            if key in under_way or not gang.actionable:
                continue
            if (now := self._seen(None if over else watched, gang, now_s)) is not None:
                after[key] = now
                if now.crew.broken:
                    self._see_to(key, now, now_s)
        self._watched = after

    def words(self, key: GangKey) -> str:
        """What is wrong with a gang that lost members, and what is waited for; empty: nothing is."""
        if key in self._restarts.under_way:
            return "The gang is being restarted as a whole."
        watched = self._watched.get(key)
        if watched is None or watched.over or watched.owner_over or not watched.crew.broken:
            return ""
        refused = f" It is not restarted as a whole, because {watched.refused}." if watched.refused else ""
        return words_of(watched.crew) + refused

    def reset(self) -> None:
        """Know nothing, as after a restart."""
        self._watched, self._looked_at = {}, {}

    def _seen(self, watched: _Watched | None, gang: Gang, now_s: float) -> _Watched | None:
        quorum = self._quorums.of_gang(gang, lost_nodes=self.context.lost_of(gang.members))
        nodes, before = self.context.cache.snapshot().table.index, watched.crew if watched is not None else None
        given_up = watched is not None and watched.given_up
        mends = given_up or self._repair_of(gang) is not Repair.RESTART
        crew = observe(before, gang, quorum, nodes=nodes, now_s=now_s, mends=mends)
        if crew is None:
            return None
        if watched is None or not crew.broken:
            return _Watched(gang, crew)
        watched.gang, watched.crew = gang, crew
        return watched

    def _repair_of(self, gang: Gang) -> Repair:
        return gang_options(dict(gang.options), self.context.planner.policy).repair

    def _see_to(self, key: GangKey, watched: _Watched, now_s: float) -> None:
        repair = self._repair_of(watched.gang)
        if repair is Repair.NONE:
            return
        since_s, note = watched.crew.broken_since_s, words_of(watched.crew)
        if since_s is not None and now_s - since_s >= PATIENCE_S and note != watched.posted:
            if watched.owner_over is None:
                watched.owner_over = True  # until it has answered: a job that ends loses its members without an Event
                self._asking.start(self._ask_owner(key, watched), f"ask the owner of {key}")
            elif not watched.owner_over:
                watched.posted, watched.owner_over = note, None
                there = (*watched.gang.pending, *watched.gang.placed)
                self.context.post_gang_event(watched.gang, Happening.BROKEN, note, note, pods=there[:1])
        limits = self.context.planner.policy.repair
        due = due_s(watched.crew, watched.gang, limits) if repair is Repair.RESTART else None
        asks = due is not None and now_s >= max(due, watched.ask_again_s) and not watched.given_up
        if asks and self.context.quiet.over:
            watched.asked += 1
            watched.ask_again_s = now_s + _ASK_AGAIN.whole_s(watched.asked)
            first = watched.crew.losses[0]
            why = f"pod {first.name} was lost, {first.cause}"
            self._restarts.add(key, why=why, ended=self._ended, repair=True)

    async def _ask_owner(self, key: GangKey, watched: _Watched) -> None:
        watched.owner_over = await wants_no_more(self.context, key)

    def _ended(self, key: GangKey, obstacle: Obstacle | None) -> None:
        if (watched := self._watched.get(key)) is not None:
            watched.over = obstacle is None
            watched.given_up, watched.refused = (obstacle.final, obstacle.why) if obstacle is not None else (False, "")
