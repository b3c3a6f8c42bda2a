"""ConfigMaps with texts over HTTP, on a server that keeps an API server's promises about versions."""

from collections.abc import AsyncIterator

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError
from extender.kube.http.transport import Transport
from extender.kube.text_store import ENTRY, STARTED_GANGS, KubeTextStore
from extender.ports import TextStore
from tests.extender.kube.conftest import serving
from tests.extender.kube.test_leases import Server
from tests.fakes.text_store import FakeTextStore

PATH = f"/api/v1/namespaces/team/configmaps/{STARTED_GANGS}"
Made = tuple[TextStore, Server]


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    server = Server()
    head = {
        "name": STARTED_GANGS,
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
    }
    server.objects[PATH] = {"kind": "ConfigMap", "metadata": head}
    async with serving(server.handle) as access, Transport(access) as transport:
        yield KubeTextStore(transport, "team"), server


async def test_a_text_comes_back_as_it_was_written_and_nothing_else_changes(made: Made) -> None:
    store, server = made
    empty = await store.read()
    assert empty is not None
    assert (store.place, empty.text) == (f"team/{STARTED_GANGS}", "")
    written = await store.write("[1]", empty)
    read = await store.read()
    assert read is not None
    assert written.text == read.text == "[1]"
    head = server.objects[PATH]["metadata"]
    assert server.objects[PATH]["data"] == {ENTRY: "[1]"}
    assert (head["labels"], head["annotations"]) == ({"a": "b"}, {"c": "d"})


@pytest.mark.parametrize("fake", [False, True], ids=["over HTTP", "fake"])
async def test_what_has_changed_is_not_written_over(made: Made, fake: bool) -> None:
    store: TextStore = FakeTextStore() if fake else made[0]
    first = await store.read()
    assert first is not None
    await store.write("one", first)
    with pytest.raises(ConflictError):
        await store.write("two", first)
    again = await store.read()
    assert again is not None
    assert again.text == "one"


async def test_no_config_map_is_a_value_and_a_refusal_an_error(made: Made) -> None:
    store, server = made
    server.fails = 403
    with pytest.raises(ApiError, match="no"):
        await store.read()
    server.fails = 0
    del server.objects[PATH]
    assert await store.read() is None


async def test_a_config_map_that_is_none_is_an_answer_that_cannot_be_used(made: Made) -> None:
    store, server = made
    server.objects[PATH]["data"] = [7]
    with pytest.raises(ApiUnavailableError):
        await store.read()
