"""Remove pods whose admitted nodes cannot take them any more, so that their owner makes new ones.

docs/safety.md S6, S10.

Why: a gate cannot be put back and an affinity cannot be made wider; a pod that was admitted to nodes which are gone
waits without end. Another in its place has the gate again and is admitted elsewhere. Rules:

- When: all listed nodes are gone for `GONE_GRACE_S`, or the pod finds no place on them for the repin timeout
  (`scoring.repair.stranded_pods`); sooner where filters that we do not model refuse them and there is room elsewhere. A
  place that lasted less than `_KEPT_S` does not restart the clock. Never in the quiet time (docs/safety.md S11).
- Only pods whose controller recreates them within its failure budget (`owners`); bare pods and all others get an Event.
  Where one of a gang that never started must stay, all stay: it cannot start, whatever failures the others cost.
- How: a gang that never started is suspended and resumed where its owner would count removed pods as failed: that costs
  it nothing (`restarts`). Else pods and owners are read afresh; whatever looks different ends the attempt. One gang at
  a time, one pod after the other, by the Eviction API with uid and resourceVersion. What it costs the owner is taken
  from its failure budget; where we had named nodes that refuse the pod it must cost nothing (docs/safety.md S27).
- Afterwards no nodes are named for the gang any more, only its zone.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.recorder import Happening, pod_subject
from extender.controllers.owners.failure_budget import OVER, NotAllowed, WhyKept, can_suspend
from extender.controllers.removal.fresh_gang import Fresh, Verdicts, read_verdicts
from extender.controllers.removal.removals import Cause
from extender.controllers.restart.controller import Restarts
from extender.controllers.restart.eligibility import Obstacle
from extender.convert import pod_from_json
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.runtime.decision_lines import Decision
from scoring.feasibility.quorum import quorum_of
from scoring.ids import GangKey, PodUid
from scoring.model import Controller, Phase
from scoring.plan import Plan
from scoring.repair import PlaceLoss, is_pinned, stranded

GONE_GRACE_S = 5.0  # A node replaced by one of the same name, or a watch that brings two changes apart, is no loss
_KEPT_S = 30.0
_AGAIN_S = 5.0  # After an attempt that something unexpected ended
_REFUSED_S = 10.0  # What kube-scheduler refuses for this long it does not refuse for a moment's lag
_REFUSED_AGAIN_S = 60.0  # After an owner's budget said no: it costs a read of pods and owner each time

_MOST_TRIES = 2  # Attempts in a row to suspend an owner, before its pods are removed one by one if it can afford that
_BY_SUSPENDING = frozenset({WhyKept.BACKOFF_LIMIT, WhyKept.INDEX_LIMIT, WhyKept.FAILURE_POLICY})
"""Why an owner cannot afford removals, though to be suspended would cost it nothing."""

_LOST: Mapping[PlaceLoss, str] = {
    PlaceLoss.GONE: "All nodes that the pod was admitted to are gone",
    PlaceLoss.FULL: "No node that the pod was admitted to has had a place for it for too long",
    PlaceLoss.REFUSED: "kube-scheduler's other filters refuse the pod all nodes that it was admitted to",
}


class _StrandedPod(msgspec.Struct):
    since_s: float
    gone_since_s: float | None  # Since when all its nodes are gone; `None`: some exist, or it has a place just now
    seen_s: float


class Repins(ControlLoop):
    """Stranded pods, and the one attempt that is under way. Bounded by the pods that are stranded."""

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

    async def look(self) -> None:
        """Note which pods are stranded, and start with the longest stranded gang, if one is due."""
        losses, now_s = await self._stranded(), self.context.clock.monotonic_s()
        self._note(now_s)
        self._not_before_s = {key: at_s for key, at_s in self._not_before_s.items() if at_s > now_s}
        self._tries = {key: tried for key, tried in self._tries.items() if key in losses}
        if self._attempt.busy or not self.context.quiet.over:
            return
        due = {
            key: [uid for uid, loss in theirs.items() if self._is_due(uid, loss, now_s)]
            for key, theirs in losses.items()
            if key not in self._not_before_s and key not in self._restarts.under_way
        }
        if order := sorted((min(self._waits[uid].since_s for uid in uids), key) for key, uids in due.items() if uids):
            key = order[0][1]
            self._attempt.start(self._repin(key, due[key]), f"repin {key}")

    def forget(self) -> None:
        """Know nothing, as after a restart; an attempt under way comes to its end."""
        self._waits.clear()
        self._not_before_s.clear()
        self._tries.clear()

    async def _stranded(self) -> Mapping[GangKey, Mapping[PodUid, PlaceLoss]]:
        """Stranded members by the current plan, which is asked once; none before the first."""
        planner = self.context.planner
        plan, snapshot = planner.current, planner.snapshot
        if snapshot is not None and self._plan is not plan:
            now_s = self.context.clock.now_s()
            self.losses = await planner.ask(stranded, snapshot, plan, planner.policy, now_s=now_s)
            self._plan = plan
        return self.losses

    def _note(self, now_s: float) -> None:
        losses = {uid: loss for theirs in self.losses.values() for uid, loss in theirs.items()}
        for uid, wait in list(self._waits.items()):
            if uid not in losses:
                wait.gone_since_s = None
                if now_s - wait.seen_s > _KEPT_S:
                    del self._waits[uid]
        for uid, loss in losses.items():
            wait = self._waits.setdefault(uid, _StrandedPod(now_s, None, now_s))
            wait.seen_s = now_s
            if loss is not PlaceLoss.GONE:
                wait.gone_since_s = None
            elif wait.gone_since_s is None:
                wait.gone_since_s = now_s

    def _is_due(self, uid: PodUid, loss: PlaceLoss, now_s: float) -> bool:
        wait = self._waits[uid]
        if wait.gone_since_s is not None and now_s - wait.gone_since_s >= GONE_GRACE_S:
            return True
        return now_s - wait.since_s >= (self._timeout_s if loss is not PlaceLoss.REFUSED else _REFUSED_S)

    async def _repin(self, key: GangKey, uids: Sequence[PodUid]) -> None:
        again_s = _AGAIN_S
        try:
            losses = (await self._stranded()).get(key, {})
            verdicts = await read_verdicts(self.context.api, await self._read(key, uids, losses))
            if self._suspend(key, verdicts):
                return
            removable: list[tuple[Fresh, Controller]] = []
            for owner, (verdict, theirs) in verdicts.items():
                refused = any(losses[one.pod.uid] is PlaceLoss.REFUSED for one in theirs)
                if isinstance(verdict, int) and verdict and refused:
                    # We named nodes that refuse the pods: their owner is not to pay for it.
                    verdict = NotAllowed(WhyKept.OUR_MISTAKE, self._tries.get(key, (0, ""))[1])
                if isinstance(verdict, NotAllowed):
                    again_s = _REFUSED_AGAIN_S
                    self._refuse(key, theirs, verdict, losses)
                elif owner is not None:
                    removable.extend((one, owner) for one in theirs)
            if len(removable) == len(uids) or self._has_started(key):
                await self._remove(key, removable, losses)
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
            pod = pod_from_json(raw, notes=self.context.notes)
            listed = [one.member_class.constraints.affinity for one in (cached, pod)]
            same = pod.uid == uid and pod.phase is Phase.PENDING and is_pinned(pod) and cache.is_own(pod)
            if not same or listed[0] != listed[1]:
                raise ValueError(f"pod {pod.key} has changed")
            pods.append(Fresh(pod, raw))
        return pods

    def _suspend(self, key: GangKey, verdicts: Verdicts) -> bool:
        """Begin to suspend the gang's owners, if removals would cost them failures and this may spare them that."""
        tries, _ = self._tries.get(key, (0, ""))
        costs = any(
            verdict.reason in _BY_SUSPENDING if isinstance(verdict, NotAllowed) else verdict > 0
            for verdict, _ in verdicts.values()
        )
        able = all(owner is not None and can_suspend(owner) for owner in verdicts)
        if not costs or not able or tries >= _MOST_TRIES or self._has_started(key):
            return False
        self._restarts.leave(key, why="no node that its pods were admitted to takes them", ended=self._suspended)
        return True

    def _suspended(self, key: GangKey, obstacle: Obstacle | None) -> None:
        if obstacle is None:
            self._removed(key)
            self.context.decided(Decision("repin", gang=key))
            return
        tries, _ = self._tries.get(key, (0, ""))
        self._tries[key] = (tries + 1 if not obstacle.final else _MOST_TRIES, obstacle.why)

    def _refuse(
        self, key: GangKey, pods: Sequence[Fresh], verdict: NotAllowed, losses: Mapping[PodUid, PlaceLoss]
    ) -> None:
        """Say of each pod why it stays, unless its owner is over anyway."""
        self.context.decided(Decision("repin", pods[0].pod.key, key, reason=verdict.reason))
        stays = f"The pod is not removed, because {verdict.text}: delete it for another to be admitted"
        for pod in (one.pod for one in pods) if verdict.reason not in OVER else ():
            loss = losses[pod.uid]
            self.context.post_event(pod_subject(pod), Happening.NOT_DISRUPTED, f"{_LOST[loss]}. {stays}", loss.name)

    def _has_started(self, key: GangKey) -> bool:
        gang = self.context.cache.gang(key)
        return gang is not None and quorum_of(gang).started

    async def _remove(
        self, key: GangKey, removable: Sequence[tuple[Fresh, Controller]], losses: Mapping[PodUid, PlaceLoss]
    ) -> None:
        """Evict one after the other those that are stranded still; end at the first that the API server refuses."""
        among = [one for one, _ in removable]
        for one, owner in removable:
            pod = one.pod
            if pod.uid not in (await self._stranded()).get(key, {}) or not self.context.quiet.over:
                return
            note = f"{_LOST[losses[pod.uid]]}. Removed for {owner.kind} {owner.name} to create another."
            try:
                await self.context.disruptions.evict(one, Cause(Happening.EVICTED, note), among=among)
            except (ConflictError, NotFoundError):
                continue  # it changed in the last moment: the watch will show it
            except (ApiError, ApiUnavailableError) as error:
                self.context.decided(Decision("repin", pod.key, key, reason=f"refused: {type(error).__name__}"))
                return
            self.context.telemetry.evicted("repin")
            self._removed(key)
            self.context.decided(Decision("repin", pod.key, key))
