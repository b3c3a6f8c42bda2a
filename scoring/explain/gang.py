"""Say of one gang where it stands: who exists, what each zone has for it, why it waits or where it goes.

A pure function of snapshot and plan, so that API, CLI and tests say the same.
"""

from dataclasses import dataclass

from scoring.explain.links import GangLinks, gang_links
from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Gang
from scoring.plan import Admission, Memo, Plan, Waiting, take_commitments
from scoring.plan.place import candidate_zones
from scoring.plan.run import Run, When, with_ratios
from scoring.policy import Policy
from scoring.snapshot import Snapshot
from scoring.zone import UNKNOWN_DISTANCE_MS, zone_distances


@dataclass(frozen=True, slots=True)
class ZoneVerdict:
    """What a zone has for the gang's missing minimum, as if the gang were next."""

    zone: ZoneName
    allowed: bool
    nodes: int
    room: int
    """How many of the `wanted` members fit, each kind for itself, in what is neither used nor committed."""
    room_when_empty: int
    wanted: int
    reference_bps: float | None
    """Best measured throughput of the zone."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """One member and where it is."""

    pod: str
    uid: PodUid
    role: str
    state: str
    """running, bound, planned, pending, gated, deleting, succeeded or failed."""
    node: NodeName | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer for one gang."""

    gang: GangKey
    source: str
    min_member: int
    members: tuple[MemberState, ...]
    admission: Admission | None
    waiting: Waiting | None
    zones: tuple[ZoneVerdict, ...]
    links: GangLinks | None
    """`None`: its members have no nodes, neither bound nor planned."""
    problems: tuple[str, ...]
    """Annotations that were not understood, or decide nothing."""


def explain(snapshot: Snapshot, plan: Plan, gang: Gang, policy: Policy, *, memo: Memo | None = None) -> Explanation:
    """Explain `gang`. Cost: as planning this one gang."""
    run = Run(snapshot, policy, memo or Memo())
    take_commitments(run, besides=gang.key)
    ask = run.ask(gang)
    wish = run.wish(ask.need, ask)
    allowed = candidate_zones(run, ask)
    now, empty = run.zone_members(wish), run.zone_members(wish, When.EMPTY)
    score = with_ratios(policy, ask)
    zones = [
        ZoneVerdict(
            zone=zone,
            allowed=zone in allowed,
            nodes=len(snapshot.table.zones[zone]),
            room=int(now[i]),
            room_when_empty=int(empty[i]),
            wanted=wish.size,
            reference_bps=run.scores((zone,), score).reference_bps,
        )
        for i, zone in enumerate(run.zones)
    ]
    return Explanation(
        gang=gang.key,
        source=gang.source.value,
        min_member=gang.min_member,
        members=tuple(_member(plan, gang)),
        admission=plan.admitted.get(gang.key),
        waiting=plan.waiting.get(gang.key),
        zones=tuple(zones),
        links=gang_links(run, plan, gang, score),
        problems=(*ask.options.problems, *_near_problem(run, ask.options.near)),
    )


def _near_problem(run: Run, near: str | None) -> tuple[str, ...]:
    """A sentence when `near` decides nothing because nobody knows how far any zone is from it."""
    if near is None:
        return ()
    distances = zone_distances(near, run.table, run.snapshot.network, run.policy)
    if any(distance < UNKNOWN_DISTANCE_MS for distance in distances.values()):
        return ()
    return (f"netgang.io/near: {near!r} is no zone of the cluster and no endpoint with a known delay; it is ignored",)


def _member(plan: Plan, gang: Gang) -> list[MemberState]:
    states: list[MemberState] = []
    for pod in gang.members:
        planned = plan.node_of.get(pod.uid)
        if pod.terminal:
            state = pod.phase.lower()
        elif pod.deleting:
            state = "deleting"
        elif pod.node is not None:
            state = "running" if pod.phase == "Running" else "bound"
        else:
            state = ("gated" if pod.gates else "pending") if planned is None else "planned"
        states.append(MemberState(pod.name, pod.uid, pod.role, state, pod.node or planned))
    return states
