"""Put the probe's side of netgang together: agents, their pods, and the source that makes a table of their reports."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from extender.api.reports import ProbePort
from extender.bootstrap.common import Common
from extender.network.probe_agents import AgentPods, Agents
from extender.network.probe_bursts import Bursts
from extender.network.probe_source import LOOK_S, ProbeSource
from extender.network.refresh import Polled
from scoring.ids import NodeName, ZoneName
from scoring.model import Snapshot
from scoring.model.policy import Policy, gang_options


class Probing:
    """The parts, where `probe.enabled`. Nothing runs yet."""

    def __init__(self, common: Common) -> None:
        chosen, cache = common.settings.probe, common.cache
        bursts: Bursts | None = None
        if chosen.throughput.enabled:
            bursts = Bursts(
                common.clock,
                common.limits.bursts,
                with_gangs=lambda: nodes_of_gangs(cache.snapshot(), foreign=True),
                first=lambda: zones_of_waiting(cache.snapshot(), common.policy),
                count=common.telemetry.probe_burst,
            )
        self.agents = Agents(common.clock, common.limits.probe, bursts=bursts)
        namespace, _, name = chosen.service_account.partition("/")
        account = f"system:serviceaccount:{namespace}:{name}"
        self.port = ProbePort(self.agents, AgentPods(common.api.get_pod, common.clock), account)
        source = ProbeSource(
            self.agents,
            zones=lambda: {node.name: node.zone for node in cache.snapshot().table.nodes},
            wanted=lambda: nodes_of_gangs(cache.snapshot()),
            acting=common.acting,
            seed=chosen.service_account,
            on_agents=common.telemetry.probe_agents,
        )
        self.polled = Polled(source, LOOK_S)
        self.agents_seen = lambda: source.seen


def zones_of_waiting(snapshot: Snapshot, policy: Policy) -> AbstractSet[ZoneName]:
    """Zones that gangs with pods to place may use. Cost: O(pods of gangs)."""
    found: set[ZoneName] = set()
    for gang in snapshot.gangs.values():
        if gang.actionable and gang.pending:
            zones = gang_options(dict(gang.options), policy).zones
            found.update(snapshot.table.zones if zones is None else zones)
    return found


def nodes_of_gangs(snapshot: Snapshot, *, foreign: bool = False) -> AbstractSet[NodeName]:
    """Nodes where gangs of ours, with `foreign` any gangs, run or are about to start. Cost: O(pods of gangs)."""

    def named() -> Iterator[NodeName]:
        for gang in snapshot.gangs.values():
            if gang.own or foreign:
                yield from (pod.node for pod in gang.members if pod.node is not None and not pod.terminal)
        for commitment in snapshot.commitments.values():
            yield from commitment.nodes

    return frozenset(named())
