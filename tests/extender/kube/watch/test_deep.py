"""Nesting that no decoder follows concerns what is nested, not the page or the watch (docs/safety.md S21)."""

import asyncio
import json
from contextlib import aclosing

from bench.apiserver import LoopbackApi
from extender.kube.calls import POD_GROUPS
from extender.kube.client import ClientLimits, KubeClient
from tests.extender.kube.conftest import client_of
from tests.extender.kube.scripted import Talk, scripted
from tests.extender.kube.watch.collection import RecordingSink, reflector_of, running

LEVELS = 9_000
"""The API server takes 10,000."""
DEEP = b'{"metadata":{"managedFields":%s,"name":"deep","namespace":"a","resourceVersion":"3"},"spec":%s}' % (
    b"[" * LEVELS + b"]" * LEVELS,
    b'{"x":' * LEVELS + b"1" + b"}" * LEVELS,
)


async def test_a_deep_object_spoils_no_watch() -> None:
    """It is an event as any other."""
    line = b'{"type":"MODIFIED","object":' + DEEP + b"}\n"

    async def script(talk: Talk) -> None:
        await talk.request()
        await talk.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(line), line))
        await talk.hung_up()

    async with scripted(script) as server, client_of(server.url, limits=ClientLimits()) as api:
        events = api.watch(POD_GROUPS.collection(), resource_version="2", timeout_s=30)
        async with aclosing(events), asyncio.timeout(30.0):
            event = await anext(events)
    assert (event.type, json.loads(event.object)["metadata"]["name"]) == ("MODIFIED", "deep")


async def test_a_reflector_syncs_beside_a_deep_object(loopback: LoopbackApi, client: KubeClient) -> None:
    """One list suffices: its own name can be read, which stands behind what is deep, and so can its neighbours."""
    good = b'{"metadata":{"name":"good","namespace":"a","resourceVersion":"2"}}'
    loopback.store.load(POD_GROUPS, {("a", "deep"): DEEP, ("a", "good"): good})
    sink = RecordingSink()
    reflector = reflector_of(client, sink, path=POD_GROUPS.collection())
    async with running(reflector), asyncio.timeout(30.0):
        await reflector.synced.wait()
        assert sorted(sink.items) == ["a/deep", "a/good"]
        assert (reflector.status().relists, reflector.status().errors) == (1, 0)
