"""Admissions: which gangs have the word to start, when their gates go, and what follows if they do not come.

Why recorded: a removed gate cannot be put back, so from the first patch on the gang's places are a commitment
(docs/safety.md S4) until all members are bound or gone, or it lapses (docs/safety.md S5). A patch is derived from
commitment and cache at the moment of sending; lost places are taken from the next plan; a restart recovers pods' notes.

A gang whose admission lapsed backs off: to reserve room without a start, again and again, would keep it from others.

- For 10 s × 2ᵏ, at most ten minutes (docs/safety.md S5). Success ends the count, and so do other pods, and, where no
  member had been heard of at all, any question about one of them, because kube-scheduler was away.
- A member that kube-scheduler refused and does not any more ends one back-off of the count, and the count goes on: with
  anti-affinity among members it refuses the last one while the first are held, and none as soon as the gang lapsed.
  So do nodes that /filter learned to leave out, and that kube-scheduler passes again as soon as no member is held: the
  first time the gang is only planned again, since a filter that netgang does not model may have closed one node.
- A gang without a gate that is offered its nodes in /filter has no clock of gates or held calls, and where
  kube-scheduler's own filters refuse it no question comes: planned for the admit timeout without any call, it lapses
  too (docs/safety.md S25). One that runs in part does not: it is first.
"""

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import msgspec
from msgspec.structs import replace

from extender.controllers.context import ControllerContext
from extender.controllers.recorder import Happening, pod_subject
from extender.convert.patches import admission_patch, narrowed_terms
from extender.runtime.decision_lines import Decision
from extender.scheduling.planner_loop import Planner
from scoring import GangKey, NodeName, PodUid
from scoring.feasibility.quorum import quorum_of
from scoring.feasibility.recheck import members_without_room
from scoring.model import Gang, GangSource, MemberClass, Pod, Reason
from scoring.plan import Plan
from scoring.verbs.places import Listing, PlanPlaces

FIRST_S: Final = 10.0
LONGEST_S: Final = 600.0
RESEND_S = 5.0  # A patch whose effect the watch does not show after this long is sent again
BELIEVE_S = 1.0  # kube-scheduler's word that an admitted pod fits none of its nodes counts when it stands for this long
BY_ZONE_S = 3600.0  # After its pods had to be removed once, a gang is not bound to nodes by name for this long


class _Lapse(msgspec.Struct, frozen=True):
    times: int
    pods: frozenset[PodUid]
    refused: frozenset[PodUid] = frozenset()  # Those of them that kube-scheduler had refused
    silent: bool = False  # Nothing was heard of them in all the time
    tried_early: bool = False  # Such a refusal went away once, and the gang lapsed again or is tried now


@dataclass(eq=False, repr=False)
class Lapses:
    """Lapses in a row of each gang, and the back-offs they cause. Bounded by the gangs that exist: see `renew`."""

    context: ControllerContext
    _: KW_ONLY
    timeout_s: float  # How long a gang without a gate may be planned before a member comes to bind
    last: dict[GangKey, _Lapse] = field(default_factory=dict, init=False)  # gang → its last one, with the count
    expected_until_s: dict[GangKey, float] = field(default_factory=dict, init=False)  # planned gang without a gate → …
    _revoked: dict[GangKey, frozenset[PodUid]] = field(default_factory=dict, init=False)
    """gang → its pods when kube-scheduler passed a node again that it had refused to a member"""

    def expire(self, plan: Plan, at_bind: frozenset[PodUid], *, elsewhere: Collection[GangKey]) -> None:
        """End overdue admissions without a gate, but of `at_bind` (calls held) and `elsewhere` (being ungated)."""
        now_s = self.context.clock.monotonic_s()
        before, self.expected_until_s = self.expected_until_s, {}
        for key, admission in plan.admitted.items():
            gang = self.context.cache.gang(key)
            if gang is None or key in elsewhere or key in plan.partial:
                continue
            expected = [pod.uid for pod in gang.pending if pod.uid in admission.members and not pod.gates]
            if not expected or not at_bind.isdisjoint(expected):
                continue
            until_s = before.get(key, now_s + self.timeout_s)
            if now_s < until_s:
                self.expected_until_s[key] = until_s
            else:
                self.lapsed(key, silent=True)

    def lapsed(self, key: GangKey, *, silent: bool = False, tried_early: bool = False) -> None:
        """An admission ended without quorum: let the gang back off. `silent`: no member ever came to bind."""
        self.renew()
        gang = self.context.cache.gang(key)
        if gang is None:
            return
        before = self.last.get(key, _Lapse(0, frozenset()))
        refused = [
            pod for member in gang.pending if (pod := self.context.cache.pod(member.uid)) is not None and pod.refusal
        ]
        self.last[key] = _Lapse(
            before.times + 1,
            pods_of(gang),
            frozenset(pod.uid for pod in refused),
            silent=silent and not refused,
            tried_early=tried_early or before.tried_early,
        )
        pause_s = min(FIRST_S * 2.0**before.times, LONGEST_S)
        self.context.cache.back_off(key, self.context.clock.now_s() + pause_s)
        why = f": kube-scheduler says of {refused[0].key}: {refused[0].refusal.rstrip('.')}" if refused else ""
        note = f"Gang {key} was admitted and did not come to bind in time{why}; tried again in {pause_s:.0f} s"
        for pod in gang.pending[:1]:
            self.context.events.post(pod_subject(pod), Happening.ADMISSION_LAPSED, note)
        self.context.decided(Decision(what="lapse", gang=key))

    def revoked(self, key: GangKey) -> None:
        """kube-scheduler passes nodes for a member that it had refused to this gang: its own members may be why."""
        if (gang := self.context.cache.gang(key)) is not None:
            self._revoked[key] = pods_of(gang)

    def abandoned(self, key: GangKey) -> None:
        """Nodes refuse a member, so that the others let go: a lapse if nodes did before, and passed it again."""
        self.renew()
        if key in self._revoked:
            self.lapsed(key, tried_early=True)

    def refused(self, key: GangKey) -> None:
        """The API server refuses the gang's patch: it waits for the longest time, or until its pods change."""
        if (gang := self.context.cache.gang(key)) is not None:
            times = self.last[key].times if key in self.last else 0
            self.last[key] = _Lapse(times + 1, pods_of(gang))
            self.context.cache.back_off(key, self.context.clock.now_s() + LONGEST_S)

    def asked(self, key: GangKey) -> None:
        """kube-scheduler asks /filter about a member."""
        if (lapse := self.last.get(key)) is not None and lapse.silent:
            self._end(key)

    def started(self, key: GangKey) -> None:
        """A member was bound: the count begins again at nothing."""
        self._revoked.pop(key, None)
        if key in self.last:
            self._end(key)

    def renew(self) -> None:
        """End back-offs of gangs whose pods or conditions changed. Cost: O(members of lapsed gangs)."""
        for key, pods in list(self._revoked.items()):
            gang = self.context.cache.gang(key)
            if gang is None or pods_of(gang) != pods:
                del self._revoked[key]
        for key, lapse in list(self.last.items()):
            gang = self.context.cache.gang(key)
            if gang is None or gang.started or pods_of(gang) != lapse.pods:
                self._end(key)
            elif not lapse.tried_early and not all(
                (pod := self.context.cache.pod(uid)) is not None and pod.refusal for uid in lapse.refused
            ):
                self.last[key] = replace(lapse, tried_early=True)
                self.context.cache.back_off(key, None)

    def _end(self, key: GangKey) -> None:
        del self.last[key]
        self.context.cache.back_off(key, None)


def pods_of(gang: Gang) -> frozenset[PodUid]:
    """The uids of its members."""
    return frozenset(pod.uid for pod in gang.members)


class _OpenAdmission(msgspec.Struct):
    until_s: float  # When it lapses; later with each gate that is removed
    lists: dict[MemberClass, tuple[Listing, msgspec.Raw]]  # class → where its members may go, and the same as JSON
    listed_for: frozenset[PodUid] = frozenset()  # The members whose places `lists` is made of


@dataclass(eq=False, repr=False)
class Admissions:
    """Gangs between the first removed gate and their start. Bounded by the gangs that exist: see `tidy`."""

    context: ControllerContext
    planner: Planner
    _: KW_ONLY
    timeout_s: float  # How long an admitted gang may take to come to bind
    open: dict[GangKey, _OpenAdmission] = field(default_factory=dict, init=False)  # Gangs that are being admitted now
    _by_zone: dict[GangKey, float] = field(default_factory=dict, init=False)  # gang → until when none are named
    _sent: dict[PodUid, float] = field(default_factory=dict, init=False)  # ungated pod → since; until watched
    _stuck: dict[PodUid, float] = field(default_factory=dict, init=False)  # unschedulable admitted pod → since
    _doubted: set[GangKey] = field(default_factory=set, init=False)  # Gangs that lost places so: not admitted now
    _refusals: dict[GangKey, tuple[Gang, str]] = field(default_factory=dict, init=False)
    """gang → as it was when the API server refused its patch for good, and what it said"""
    _gated: dict[GangKey, tuple[Gang, tuple[PodUid, ...]]] = field(default_factory=dict, init=False)
    """gang → as it was at the last look, and its gated members"""
    _lister: tuple[Plan, PlanPlaces] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.lapses = Lapses(self.context, timeout_s=self.timeout_s)

    def name_no_nodes(self, gang: GangKey) -> None:
        """Nodes were named for the gang, and they would not do: for an hour the zone alone is (docs/safety.md S27)."""
        self._by_zone[gang] = self.context.clock.monotonic_s() + BY_ZONE_S

    def refusal(self, gang: GangKey) -> str | None:
        """What the API server said when it refused for good to admit the gang; `None`: it did not."""
        return self._refusals.get(gang, (None, None))[1]

    def lapses_in_s(self, gang: GangKey) -> float | None:
        """How long the gang still has to come to bind; `None`: it is not expected."""
        opened = self.open.get(gang)
        until_s = opened.until_s if opened is not None else self.lapses.expected_until_s.get(gang)
        return None if until_s is None else max(until_s - self.context.clock.monotonic_s(), 0.0)

    def recover(self) -> None:
        """After a restart: commit again to the nodes in the pods' notes, as far as there is room."""
        for key, gang in sorted(self.context.cache.snapshot().gangs.items()):
            noted = {pod.uid: pod.admitted_to for pod in gang.pending if pod.admitted_to and not pod.gated}
            places = self.context.cache.free_to_commit(key, noted)
            if not places or gang.problem is not None or not gang.own:
                continue
            short = members_without_room(self.context.cache.snapshot(), gang, places)
            if left := {uid: node for uid, node in places.items() if uid not in short}:
                self.open[key] = _OpenAdmission(self.context.clock.monotonic_s() + self.timeout_s, {})
                self.context.cache.set_commitment(key, left)

    def reset(self) -> None:
        """Drop all commitments and expect no gang: another replica decides now, or `recover` finds them again."""
        expected = self.lapses.expected_until_s
        for book in (expected, self.open, self._sent, self._stuck, self._doubted, self._refusals, self._gated):
            book.clear()
        for key in list(self.context.cache.snapshot().commitments):
            self.context.cache.set_commitment(key, {})

    def plan_made(self, plan: Plan) -> list[PodUid]:
        """Take new places of gangs under way from the plan; gated pods that the plan admits, heaviest gang first."""
        for key in sorted(self.open):
            admission = plan.admitted.get(key)
            if admission is not None:
                both = {**self._assigned(key), **admission.members}
                self.context.cache.set_commitment(key, self.context.cache.free_to_commit(key, both), as_planned=True)
        now_s = self.context.clock.monotonic_s()
        to_ungate: list[PodUid] = []
        for key, admission in plan.admitted.items():
            gang, last = self.context.cache.gang(key), self._gated.get(key)
            if gang is None:
                continue
            if last is None or last[0] is not gang:  # to remember it saves 11 ms a plan that admits 8,000 pods
                held = not gang.source.is_native  # members that need others near them follow the first that is held
                first = {pod.uid for pod in gang.pending if held and not pod.needs_others}
                gated = tuple(pod.uid for pod in gang.pending if pod.gated and (pod.uid in first or not first))
                last = self._gated[key] = (gang, gated)
            waiting = (uid for uid in last[1] if uid in admission.members)
            to_ungate.extend(uid for uid in waiting if now_s - self._sent.get(uid, now_s - RESEND_S) >= RESEND_S)
        return to_ungate

    def patch_for(self, pod: Pod) -> bytes | None:
        """The patch that removes the pod's gate; `None`: its gang is not admitted now."""
        gang = self.context.cache.gang_of(pod.uid)
        if gang is None or gang.problem is not None or pod.foreign_gates or gang.key in self._refusals:
            return None
        if gang.key not in self.open and not self._begin(gang):
            return None
        node = self.context.cache.committed_node(gang.key, pod.uid)
        if node is None:
            return None
        opened = self.open[gang.key]
        if pod.uid not in opened.listed_for:  # a successor came meanwhile: others sit on its siblings' places by now
            opened.listed_for = frozenset([member.uid for member in gang.pending])
            opened.lists.clear()
        listed = self._listed(gang, pod.member_class, node)
        return None if listed is None else admission_patch(pod, node, listed, notes=self.context.notes)

    def sent(self, pod: Pod) -> None:
        """The pod's gate is gone: the API server confirmed it."""
        self._sent[pod.uid] = now_s = self.context.clock.monotonic_s()
        if pod.group is not None:
            if (opened := self.open.get(pod.group.key)) is not None:
                opened.until_s = now_s + self.timeout_s
            node = self.context.cache.committed_node(pod.group.key, pod.uid) or ""
            self.context.decided(Decision("ungate", pod.key, pod.group.key, node))

    def refused(self, pod: Pod, why: str) -> None:
        """The API server will never accept the pod's patch: its gang gives its room back until its pods change."""
        gang = self.context.cache.gang_of(pod.uid)
        if gang is None:
            return
        self._refusals[gang.key] = (gang, why)
        self.context.decided(Decision("ungate", pod.key, gang.key, reason=why))
        note = f"The API server refuses to admit the pod: {why}"
        self.context.events.post(pod_subject(pod), Happening.ADMISSION_LAPSED, note, "refused")
        self.open.pop(gang.key, None)
        self.context.cache.set_commitment(gang.key, {})
        self.lapses.refused(gang.key)

    def gives_up(self, gang: GangKey) -> bool:
        """Whether a hold limit that passed before quorum was the last chance: not while the gang is being admitted."""
        opened = self.open.get(gang)
        over = opened is None or self.context.clock.monotonic_s() >= opened.until_s
        if over:
            self.open.pop(gang, None)
        return over

    def tidy(self, at_bind: frozenset[PodUid]) -> None:
        """Once a second: close what is done, let lapse what does not come. `at_bind`: members whose call is held."""
        now_s, plan = self.context.clock.monotonic_s(), self.planner.current
        for key, opened in sorted(self.open.items()):
            gang, waiting = self.context.cache.gang(key), plan.waiting.get(key)
            if gang is None or not gang.pending:
                del self.open[key]
                continue
            late = now_s >= opened.until_s and not any(pod.uid in at_bind for pod in gang.pending)
            incomplete = waiting is not None and waiting.reason is Reason.INCOMPLETE
            # One with an obstacle need not back off: the plan has no place for it until then.
            if late or (incomplete and any(pod.obstacle for pod in gang.pending)):
                del self.open[key]
                self.context.cache.set_commitment(key, {})
            if late and not quorum_of(gang).started:  # members beyond the minimum only lose their places
                self.lapses.lapsed(key, silent=True)
        for key in sorted({*self.open, *self._doubted}):
            gang = self.context.cache.gang(key)
            if gang is None or not gang.pending:
                self._doubted.discard(key)
            else:
                self._drop_refused_places(gang, plan, at_bind, now_s)
        self._sent = {uid: since_s for uid, since_s in self._sent.items() if now_s - since_s < RESEND_S}
        self._by_zone = {key: until_s for key, until_s in self._by_zone.items() if until_s > now_s}
        pods = {uid: self.context.cache.pod(uid) for uid in self._stuck}
        self._stuck = {uid: self._stuck[uid] for uid, pod in pods.items() if pod and pod.unschedulable and not pod.node}
        self._gated = {key: last for key, last in self._gated.items() if self.context.cache.gang(key) is not None}
        for key, (gang, _) in list(self._refusals.items()):
            now = self.context.cache.gang(key)
            if now is None or pods_of(now) != pods_of(gang):
                del self._refusals[key]

    def _begin(self, gang: Gang) -> bool:
        """Commit the gang to its places in the current plan; `False`: it has none, or they do not stand any more."""
        admission = self.planner.current.admitted.get(gang.key)
        if admission is None:
            return False
        members = {pod.uid for pod in gang.pending}
        planned = {uid: node for uid, node in admission.members.items() if uid in members}
        planned = self.context.cache.free_to_commit(gang.key, {**planned, **self._assigned(gang.key)})
        if members_without_room(self.context.cache.snapshot(), gang, planned):
            self.planner.mark_dirty()
            return False
        self.open[gang.key] = _OpenAdmission(self.context.clock.monotonic_s() + self.timeout_s, {})
        self.context.cache.set_commitment(gang.key, planned, as_planned=True)
        return True

    def _assigned(self, key: GangKey) -> Mapping[PodUid, NodeName]:
        commitment = self.context.cache.snapshot().commitments.get(key)
        return commitment.assignment if commitment is not None else {}

    def _listed(self, gang: Gang, member_class: MemberClass, node: NodeName) -> msgspec.Raw | None:
        """The terms for the class as JSON, made again when it lacks the member's node; of a native gang that alone."""
        lists, zone_label = self.open[gang.key].lists, self.planner.policy.zone_label
        listed = lists.get(member_class)
        if listed is None or (listed[0].nodes and node not in listed[0].nodes):
            planned = self.planner.current.admitted.get(gang.key)
            if planned is None:
                return None
            admission = replace(planned, members=self._assigned(gang.key), committed=True)
            named = gang.key not in self._by_zone
            plan, snapshot = self.planner.current, self.planner.snapshot or self.context.cache.snapshot()
            if self._lister is None or self._lister[0] is not plan:
                self._lister = (plan, PlanPlaces(snapshot, plan, self.planner.policy, cache=self.planner.cache))
            for like, listing in self._lister[1].listings(gang, admission, may_name=named).items():
                terms = narrowed_terms(like.constraints.affinity, listing, zone_label=zone_label)
                lists[like] = (listing, msgspec.Raw(msgspec.json.encode(terms)) if terms else msgspec.Raw(b""))
            listed = lists.get(member_class)
        if listed is not None and listed[0].nodes and gang.source is GangSource.GATED_NATIVE:
            only = narrowed_terms(member_class.constraints.affinity, listed[0].only(node), zone_label=zone_label)
            return msgspec.Raw(msgspec.json.encode(only))
        return None if listed is None else listed[1]

    def _drop_refused_places(self, gang: Gang, plan: Plan, at_bind: frozenset[PodUid], now_s: float) -> None:
        """Other filters may refuse all nodes of the pod before kube-scheduler asks us (docs/safety.md S6).

        Believed after a while, and of all named nodes: its successor is not to be sent there (docs/safety.md S27).
        Not while a member that the pod may need near it is still to come: no node would do without that; and once it
        has come, not before the pod was woken for it.
        """
        to_come = [pod.uid for pod in gang.pending if not pod.needs_others and pod.uid not in at_bind]
        alone = any(self.context.cache.committed_node(gang.key, uid) or uid in plan.node_of for uid in to_come)
        for pod in gang.pending:
            if not pod.unschedulable or pod.obstacle or pod.uid in at_bind or (alone and pod.needs_others):
                continue  # an obstacle is no node's refusal: it keeps the pod from all alike
            node = self.context.cache.committed_node(gang.key, pod.uid) or plan.node_of.get(pod.uid)
            if node is None:
                continue
            believe_s = 4 * BELIEVE_S if pod.needs_others else BELIEVE_S
            if now_s - self._stuck.setdefault(pod.uid, now_s) >= believe_s:
                del self._stuck[pod.uid]
                self._doubted.add(gang.key)
                until_s = self.context.clock.now_s() + self.planner.policy.exclusion_ttl_s
                for refused in (node, *self.planner.places().instead(gang, pod, ()).absent):
                    self.context.cache.exclude(pod.member_class, refused, until_s, by=gang.key)
                left = {uid: where for uid, where in self._assigned(gang.key).items() if uid != pod.uid}
                self.context.cache.set_commitment(gang.key, left)  # without the pod it may be nothing
