"""The documents behind /v1, /readyz: read-only looks at the service."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from extender.api.documents.explain import explain_document, unblocking_document
from extender.api.documents.link import link_document
from extender.api.documents.pairs import USUAL_NODES, pairs_document, zones_document
from extender.api.documents.plan import (
    Document,
    matrix_document,
    plan_document,
    preemption_document,
    preference_document,
)
from extender.api.what_if.runner import BusyError, WhatIfs
from extender.cache import ClusterCache
from extender.controllers.events.unreadable_objects import UnreadableWords
from extender.network.coverage import mapping_document
from extender.network.refresh import NetworkStatus
from extender.runtime.slices import in_slices
from extender.scheduling.admission.gates import Admissions
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.planning.loop import Planner
from extender.scheduling.planning.node_settling import kept_notes
from scoring.explain import Around, Decision, Note, explain_in_steps
from scoring.explain.around import wants_nodes
from scoring.ids import GangKey, NodeName, gang_key
from scoring.model import Gang, Pod
from scoring.plan.steps import Steps, finish
from scoring.score.pairs import extender_scores
from scoring.verbs.prioritize import prefer

Sync = Callable[[], Mapping[str, Any]]
"""kind → how its reflector does; an entry has `synced`, `contact_age_s` and `last_error`"""

_NAMED: Final = 100
"""Nodes, endpoints and doubts that /v1/network names of each list; it counts the others."""
_NAMED_IN_READINESS: Final = 10
STALE_S: Final = 300.0
"""Age of the last word about a kind of objects from which `/readyz` says no.

An idle watch brings a bookmark about once a minute; one that was silent for 120 s is opened again, and has then three
minutes to bring its first. Below 180 an idle cluster could look stale."""


class Views:
    """What the service shows. Nothing here changes anything."""

    def __init__(
        self,
        cache: ClusterCache,
        planner: Planner,
        binds: Binds,
        admissions: Admissions,
        *,
        sync: Sync,
        network: Callable[[], NetworkStatus | None],
        leadership: Callable[[], Document] | None = None,
        repair: Callable[[GangKey], str] = lambda _: "",
        preemption_blocked: Callable[[GangKey], str | None] = lambda _: None,
        decisions: Callable[[GangKey], tuple[Decision, ...]] = lambda _: (),
        what_ifs: WhatIfs | None = None,
        circumstances: Callable[[Gang], Awaitable[tuple[Note, ...]]] | None = None,
        nodes_asked: Callable[[GangKey], Note | None] | None = None,
        expected_for_s: Callable[[GangKey], float | None] = lambda _: None,
        unreadable: UnreadableWords | None = None,
        ignored_notes: Callable[[Gang], tuple[Note, ...]] = lambda _: (),
        notes_problem: Callable[[], str] = lambda: "",
    ) -> None:
        self._cache = cache
        self._planner = planner
        self._binds = binds
        self._admissions = admissions
        self._sync = sync
        self._network = network
        self._decisions = decisions
        """The last ones about a gang, newest first"""
        self._circumstances = circumstances
        """Reads quotas, deadlines and budgets of a gang; `None`: nobody does"""
        self._nodes_asked = nodes_asked
        """What an autoscaler was asked for a gang; `None`: none is asked"""
        self._notes_problem = notes_problem
        """Why notes do not outlive this process; empty: they do"""
        self._ignored_notes = ignored_notes
        """Notes on the gang's pods and owners that are not ours"""
        self._what_ifs = what_ifs
        """Finds out what would let a gang in; `None`: nobody does"""
        self._expected_for_s = expected_for_s
        """How long an admitted gang without gates still has to come to bind; `None`: it is not expected"""
        self._preemption_blocked = preemption_blocked
        """Why a gang that would make room for this one stays"""
        self._leadership = leadership
        """How the election stands; `None`: there is none"""
        self._unreadable = unreadable
        """What to say of objects that cannot be read; `None`: all can be"""
        self._repair = repair
        """What is wrong with a gang that lost members; empty: nothing"""

    def plan(self) -> Document:
        """The current plan."""
        snapshot = self._planner.snapshot or self._cache.snapshot()
        document = plan_document(self._planner.current, snapshot)
        commitments = self._cache.snapshot().commitments
        document["committed"] = {key: len(one.assignment) for key, one in sorted(commitments.items())}
        document["being_admitted"] = sorted(self._admissions.open)
        document["held_binds"] = self._binds.held_count
        return document

    def explain(self, namespace: str, name: str) -> Document | None:
        """Why a gang or a pod is where it is; `None` if nothing of that name is known."""
        return finish(self._explained(namespace, name))

    async def explain_in_turns(self, namespace: str, name: str) -> Document | None:
        """The same and what would let a waiting gang in, with a turn for everybody else every few milliseconds."""
        if self._what_ifs is None:
            return self.explain(namespace, name)
        gang = self._gang(namespace, name)
        notes = await self._circumstances(gang) if gang is not None and self._circumstances is not None else ()
        document = await in_slices(self._explained(namespace, name, notes=notes))
        gang = self._gang(namespace, name)
        if document is None or gang is None:
            return document
        try:
            found = await self._what_ifs.unblock(gang)
        except BusyError:
            found = None
        document["would_help"] = unblocking_document(found)
        return document

    def _gang(self, namespace: str, name: str) -> Gang | None:
        """The gang of that name, else that of the pod of that name."""
        gangs = self._cache.snapshot().gangs
        pod = self._cache.pod_by_name(namespace, name)
        found = gangs.get(gang_key(namespace, name))
        return gangs.get(pod.group.key) if found is None and pod is not None and pod.group is not None else found

    def _explained(self, namespace: str, name: str, *, notes: tuple[Note, ...] = ()) -> Steps[Document | None]:
        gang, pod = self._gang(namespace, name), self._cache.pod_by_name(namespace, name)
        if gang is None and pod is None:
            return None
        document: Document = {}
        if gang is not None:
            planner = self._planner
            snapshot = self._cache.snapshot()
            explanation = yield from explain_in_steps(
                snapshot,
                planner.current,
                gang,
                planner.policy,
                now_s=planner.now_s,
                memo=planner.memo,
                around=self._around(gang.key, (*notes, *self._ignored_notes(gang))),
            )
            document = explain_document(explanation)
            document["being_admitted"] = self._admissions.keeps(gang.key)
            document["admission_refused"] = self._admissions.refusal(gang.key)
            lapses_in_s = self._admissions.lapses_in_s(gang.key)
            document["admission_lapses_in_s"] = self._expected_for_s(gang.key) if lapses_in_s is None else lapses_in_s
            document["preemption"] = preemption_document(snapshot, gang.key, blocked=self._preemption_blocked(gang.key))
            document["repair"] = self._repair(gang.key)
        if pod is not None:
            document["pod"] = self._pod(pod)
        return document

    def unreadable(self, namespace: str, name: str) -> str | None:
        """What is wrong with objects of that name that cannot be read; `None`: there are none."""
        return self._unreadable.named(namespace, name) if self._unreadable is not None else None

    def _around(self, gang: GangKey, notes: tuple[Note, ...]) -> Around:
        """What the service knows besides the snapshot."""
        if self._unreadable is not None:
            notes = (*self._unreadable.of_gang(gang), *notes)
        state = self._binds.state(gang)
        held = tuple(state.held) if state is not None else ()
        asked = self._nodes_asked(gang) if self._nodes_asked is not None else None
        members = (self._cache.pod(pod.uid) for pod in known.pending) if (known := self._cache.gang(gang)) else ()
        refusals = {pod.uid: pod.refusal for pod in members if pod is not None and pod.refusal}
        if wants_nodes(self._planner.current.waiting.get(gang)):
            notes = (*notes, *kept_notes(self._cache.kept_for_daemon_sets(), now_s=self._planner.now_s))
        return Around(held, self._decisions(gang), notes, refusals=refusals, nodes_asked=asked)

    def network(self, *, zone: str | None = None, limit: int = USUAL_NODES) -> Document:
        """Sources, mapping and coverage of the network data, and the values between some nodes."""
        status = self._network()
        snapshot = self._cache.snapshot()
        document = matrix_document(snapshot)
        document["zones"] = zones_document(snapshot)
        document["pairs"] = pairs_document(snapshot, zone=zone, limit=limit)
        if status is not None:
            document["status"] = asdict(replace(status, mapping=None))
            if status.mapping is not None:
                document["status"]["mapping"] = mapping_document(status.mapping, most=_NAMED)
        return document

    def link(self, source: str, target: str) -> Document | None:
        """Both directions of the link between two nodes: value, age and source; `None` if there is no such node."""
        snapshot = self._cache.snapshot()
        return link_document(snapshot, NodeName(source), NodeName(target), self._planner.policy.score)

    def readiness(self) -> tuple[bool, Sequence[str], Mapping[str, Any]]:
        """Ready once every watched kind was read and a plan was made from it, and while they are followed.

        All that decides is needed: nodes, pods and PodGroups; a kind that is not installed is known to be absent, and
        that is asked for again and again, too.
        """
        sync = self._sync()
        reasons = [f"{kind} are not read yet" for kind, status in sync.items() if not status["synced"]]
        reasons.extend(
            f"{kind} are out of step: nothing heard for {age_s:.0f} s ({status['last_error'] or 'no error'})"
            for kind, status in sync.items()
            if status["synced"] and (age_s := status["contact_age_s"] or 0.0) >= STALE_S
        )
        if not reasons and self._planner.snapshot is None:
            reasons.append("the first plan is not made yet")
        network = self._network()
        if network is not None and not network.ready:
            reasons.append(f"reading network data failed inside: {network.crash}")
        detail: dict[str, Any] = {"sync": dict(sync), "cache": asdict(self._cache.sizes())}
        if problem := self._notes_problem():
            detail["notes"] = f"no gang is suspended and no job resized: {problem}"
        if self._leadership is not None:
            detail["leadership"] = self._leadership()
        if network is not None:
            detail["network"] = {"sources": [asdict(source) for source in network.sources]}
            if network.mapping is not None:
                detail["network"]["mapping"] = mapping_document(network.mapping, most=_NAMED_IN_READINESS)
        return not reasons, reasons, detail

    def _pod(self, pod: Pod) -> Document:
        snapshot = self._cache.snapshot()
        gang = self._cache.gang_of(pod.uid)
        planner = self._planner
        preference = prefer(snapshot, planner.current, pod, gang, planner.policy, memo=planner.memo)
        scores = dict(zip(snapshot.table.names, extender_scores(preference.total).tolist(), strict=True))
        return {
            "name": pod.key,
            "uid": pod.uid,
            "own": self._cache.is_own(pod),
            "node": pod.node,
            "planned": planner.current.node_of.get(pod.uid),
            "prioritize": preference_document(preference, snapshot, scores),
        }
