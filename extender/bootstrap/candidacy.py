"""What a replica needs to stand for election: its identity, the Lease, and the pod that it labels.

Why beside `bootstrap`: without `leader_election` none of this exists, and with it only one place has to know where the
pod's name comes from. Rule: the identity is new with each process, so a process is never taken for its predecessor.
"""

import random
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from extender.kube.credentials import ApiServer
from extender.kube.http.transport import FEW, Transport
from extender.kube.leases import KubeLeases, LeasePlace
from extender.leadership.election import Election, LeaseTimes
from extender.leadership.lease import LeaseApi
from extender.leadership.lease_loop import Leadership
from extender.leadership.role import RoleLabel
from extender.ports import Clock
from extender.runtime.telemetry import Telemetry
from extender.settings.leadership import LeaderElection, OwnPod, lease_namespace
from extender.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Candidacy:
    """One replica that stands for election; `pod` "": it runs in none and labels none."""

    election: Election
    api: LeaseApi
    pod: str

    def leadership(self, clock: Clock, telemetry: Telemetry) -> Leadership:
        """The candidate at work."""
        return Leadership(self.election, self.api, clock, telemetry, label=RoleLabel(self.api, self.pod))


@asynccontextmanager
async def candidacy(
    settings: Settings, server: ApiServer, rng: random.Random, *, environment: Mapping[str, str], host: str
) -> AsyncIterator[Candidacy | None]:
    """As the settings say; `None`: there is no election. `environment` may name the pod, `host` is for people."""
    if settings.leader_election is LeaderElection.OFF:
        yield None
        return
    lease = settings.lease
    pod = OwnPod.of(environment)
    place = LeasePlace(lease_namespace(lease, pod), lease.name, pod.namespace if pod is not None else "")
    times = LeaseTimes.of(lease.duration_s)
    identity = f"{pod.name if pod is not None else host}_{uuid.UUID(int=rng.getrandbits(128), version=4)}"
    async with Transport(server, limits=FEW) as transport:
        api = KubeLeases(transport, place, call_s=times.renew_deadline_s / 2.0)
        yield Candidacy(Election(identity, times, rng=rng), api, pod.name if pod is not None else "")
