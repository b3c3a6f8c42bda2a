"""POST /v1/probe: agents alone, each for its own node; what is wrong is refused, counted and changes nothing."""

import json
import math
import random
from collections import Counter
from typing import Any

import httpx
import msgspec
import pytest

from extender.api.auth import Reporters
from extender.api.reports import (
    MAX_PROBE_BYTES,
    POD_NAME,
    POD_UID,
    AgentPods,
    ProbePort,
    create_reports_app,
    reports_door,
)
from extender.bootstrap.serve import port_config
from extender.errors import ApiUnavailableError, NotFoundError
from extender.network.probe_agents import Agents
from extender.ports import Identity
from extender.runtime.telemetry import Telemetry
from extender.signed_notes import Notes
from scoring import NodeName
from tests.example_counts import times
from tests.extender.network.probe.probing import GOOD, report
from tests.extender.server.served import listening
from tests.fakes.clock import FakeClock
from tests.fakes.reviews import FakeReviews
from tests.fuzz.mutate import mutated
from tests.liveness import LIVENESS_S

ACCOUNT = "system:serviceaccount:netgang-system:netgang-probe"
PODS = {"agent-1": ("uid-1", "n1", "10.0.0.1"), "agent-2": ("uid-2", "n2", "10.0.0.2"), "agent-3": ("other", "n3", "")}


def bound(pod: str, account: str = ACCOUNT) -> Identity:
    uid = f"uid-{pod[-1]}"
    return Identity(account, extra=((POD_NAME, (pod,)), (POD_UID, (uid,))))


OWNERS: dict[str, str | Identity] = {
    "one": bound("agent-1"),
    "two": bound("agent-2"),
    "replaced": bound("agent-3"),
    "gone": bound("agent-4"),
    "unbound": ACCOUNT,
    "tenant": bound("agent-1", "system:serviceaccount:team:trainer"),
    "ann": "ann",
}


class Port:
    def __init__(self) -> None:
        self.clock, self.leads = FakeClock(), True
        self.agents = Agents(self.clock, Notes(b"of the probe's agents"))
        self.read: list[str] = []
        self.error: Exception | None = None
        self.telemetry = Telemetry()
        probe = ProbePort(self.agents, AgentPods(self._get_pod, self.clock), ACCOUNT)
        app = create_reports_app(None, acting=lambda: self.leads, probe=probe)
        reporters = Reporters(FakeReviews(owners=OWNERS), agents=ACCOUNT)
        self.door = reports_door(app, reporters, self.clock, self.telemetry)

    @property
    def counted(self) -> Counter[str]:
        """Outcome → reports of agents; none counts as one of a job."""
        samples = [sample for family in self.telemetry.registry.collect() for sample in family.samples]
        found = [sample for sample in samples if sample.name.endswith("reports_total")]
        assert {sample.name for sample in found} <= {"netgang_probe_reports_total"}
        return Counter({sample.labels["outcome"]: int(sample.value) for sample in found})

    async def _get_pod(self, namespace: str, name: str) -> bytes:
        assert namespace == "netgang-system"
        self.read.append(name)
        if self.error is not None:
            raise self.error
        if name not in PODS:
            raise NotFoundError(404, "no such pod")
        uid, node, address = PODS[name]
        status = {"podIP": address} if address else {}
        spec = {"nodeName": node, "containers": []}
        pod = {"kind": "Pod", "metadata": {"uid": uid}, "spec": spec, "status": status}
        return msgspec.json.encode(pod)

    async def send(self, document: Any, token: str = "one", method: str = "POST") -> httpx.Response:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(self.door), base_url="http://netgang") as client:
            return await client.request(method, "/v1/probe", content=body, headers=headers)


async def test_an_agent_is_answered_what_to_measure_and_a_replay_is_refused() -> None:
    port = Port()
    answer = await port.send(report("n1"))
    assert (answer.status_code, answer.json()) == (
        200,
        {"interval_s": 2.0, "packet_interval_s": 0.1, "peers": [], "reflect_for": [], "resend": True},
    )
    for status in (200, 409):  # a replay
        port.clock.advance(10.0)
        assert (await port.send(report("n1", 1))).status_code == status
    assert port.read == ["agent-1"]
    assert port.counted == {"accepted": 2, "replayed": 1}


WRONG: dict[str, tuple[Any, str, int, str]] = {
    "no token of this cluster": (report("n1"), "wrong", 401, "no token"),
    "a tenant's token": (report("n1"), "tenant", 403, "other node"),
    "a person's": (report("n1"), "ann", 403, "other node"),
    "a token bound to no pod": (report("n1"), "unbound", 403, "other node"),
    "a pod of another node": (report("n1"), "two", 403, "other node"),
    "another pod of the same name": (report("n3"), "replaced", 403, "other node"),
    "a pod that is gone": (report("n1"), "gone", 403, "other node"),
    "no JSON": (b"{", "one", 400, "bad report"),
    "no UTF-8": (b'{"node": "\xff"}', "one", 400, "bad report"),
    "deep": (b"[" * 60_000, "one", 400, "bad report"),
    "a field that is not known": ({**report("n1"), "colour": 1}, "one", 400, "bad report"),
    "too many links": (report("n1", 0, *({"peer": f"p{i}", **GOOD} for i in range(129))), "one", 400, "bad report"),
    "too large": (b" " * (MAX_PROBE_BYTES + 1), "one", 413, "too large"),
}


@pytest.mark.parametrize(("document", "token", "status", "outcome"), WRONG.values(), ids=WRONG)
async def test_what_is_wrong_is_refused_and_counted(document: Any, token: str, status: int, outcome: str) -> None:
    port = Port()
    assert (await port.send(document, token)).status_code == status
    assert port.counted == {outcome: 1}
    assert len(port.agents.names) == 0


async def test_a_standby_and_one_that_cannot_read_the_pod_take_nothing() -> None:
    port = Port()
    port.leads = False
    assert (await port.send(report("n1"))).status_code == 503
    port.leads, port.error = True, ApiUnavailableError("no answer")
    assert (await port.send(report("n1"))).status_code == 503
    assert (await port.send(report("n1"), method="GET")).status_code == 405
    assert port.counted == {"unavailable": 2, "bad report": 1}


async def test_an_agent_that_begins_again_and_again_has_its_pod_read_seldom() -> None:
    port = Port()
    for number in range(20):
        await port.send(report("n1", since_s=1000.0 + number))
    assert port.read == ["agent-1"]
    port.clock.advance(10.0)
    await port.send(report("n1", since_s=2000.0))
    assert port.read == ["agent-1"] * 2


BODIES, COPIES = times(1_800), times(200)
FOREIGN = ("wrong", "tenant", "ann", "unbound", "two", "gone")


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_thousands_of_hostile_reports_change_nothing() -> None:
    """Changed reports, repeated ones, right ones with a foreign token, over HTTP: refused, counted, no trace left."""
    port, rng = Port(), random.Random(24)
    port.agents.peers = {NodeName("n1"): [NodeName("n2")], NodeName("n2"): [NodeName("n1")]}
    config = port_config(port.door, "127.0.0.1", 0)
    async with listening(config) as server, httpx.AsyncClient(timeout=LIVENESS_S) as client:
        url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1/probe"

        async def send(body: bytes, token: str) -> int:
            answer = await client.post(url, content=body, headers={"authorization": f"Bearer {token}"})
            return answer.status_code

        for sequence in range(4):
            port.clock.advance(10.0)
            for node, peer, token in (("n1", "n2", "one"), ("n2", "n1", "two")):
                assert await send(json.dumps(report(node, sequence, {"peer": peer, **GOOD})).encode(), token) == 200
        port.clock.advance(10.0)
        last = report("n1", 2**53, {"peer": "n2", **GOOD})  # no change of the sequence makes it newer
        assert await send(json.dumps(last).encode(), "one") == 200
        before, taken = known(port.agents), port.counted
        statuses = Counter[int]()
        for number in range(BODIES + COPIES):
            changed = number < BODIES
            body = mutated(rng, [last]) if changed else json.dumps(last).encode()
            statuses[await send(body, "one" if changed else rng.choice(("one", *FOREIGN)))] += 1
        assert known(port.agents) == before
        assert set(statuses) == {400, 401, 403, 409, 413, 429}  # 429: as if the agent had begun again, at once
        refused = port.counted - taken
        assert (refused["accepted"], refused.total()) == (0, BODIES + COPIES)


def known(agents: Agents) -> object:
    values = [(node, list(agents.values(node, since_s=-math.inf))) for node in agents.names]
    assert [len(found) for _, found in values] == [2, 0], "both directions, said by one"
    return values, *agents.in_trouble()
