"""The Secret with the keys for notes over HTTP, on a server that keeps an API server's promises about versions."""

from base64 import b64encode
from collections.abc import AsyncIterator

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.kube.http.transport import Transport
from extender.kube.key_store import NOTE_KEYS, KubeKeyStore
from extender.ports import KeyStore
from tests.extender.kube.conftest import serving
from tests.extender.kube.test_leases import Server
from tests.fakes.key_store import KEY, FakeKeyStore

PATH = f"/api/v1/namespaces/team/secrets/{NOTE_KEYS}"
DATA = {KEY.name: KEY.secret}
Made = tuple[KeyStore, Server]


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    server = Server()
    there = {"kind": "Secret", "metadata": {"name": NOTE_KEYS, "resourceVersion": "7", "labels": {"a": "b"}}}
    server.objects[PATH] = {**there, "type": "Opaque"}
    async with serving(server.handle) as access, Transport(access) as transport:
        yield KubeKeyStore(transport, "team"), server


async def test_keys_come_back_as_they_were_written(made: Made) -> None:
    store, server = made
    empty = await store.read()
    assert empty is not None
    assert empty.data == {}
    written = await store.write(DATA, empty)
    read = await store.read()
    assert read is not None
    assert written.data == read.data == DATA
    assert server.objects[PATH]["data"] == {KEY.name: b64encode(KEY.secret).decode()}
    assert (server.objects[PATH]["type"], server.objects[PATH]["metadata"]["labels"]) == ("Opaque", {"a": "b"})


@pytest.mark.parametrize("fake", [False, True], ids=["over HTTP", "fake"])
async def test_what_has_changed_is_not_written_over(made: Made, fake: bool) -> None:
    store = FakeKeyStore() if fake else made[0]
    first = await store.read()
    assert first is not None
    await store.write(DATA, first)
    with pytest.raises(ConflictError):
        await store.write({}, first)
    again = await store.read()
    assert again is not None
    assert again.data == DATA


async def test_no_secret_is_a_value_and_a_refusal_an_error(made: Made) -> None:
    store, server = made
    server.fails = 403
    with pytest.raises(ApiError, match="no"):
        await store.read()
    server.fails = 0
    del server.objects[PATH]
    assert await store.read() is None
    assert store.place == f"team/{NOTE_KEYS}"


async def test_a_secret_that_is_none_is_an_answer_that_cannot_be_used(made: Made) -> None:
    """What is not base64 came from no API server."""
    store, server = made
    server.objects[PATH]["data"] = {KEY.name: "é"}
    with pytest.raises(ApiUnavailableError):
        await store.read()
