"""Keys in their Secret: the first one, races, rotation, and what happens without them."""

import asyncio
from contextlib import suppress

import pytest

from extender.errors import ApiError, ApiUnavailableError
from extender.notes.keeper import AGAIN_S, READ_EACH_S, KeyKeeper
from extender.notes.signatures import KEPT, ROTATED_S, Bearer, Key, NoteKind, keys_of
from extender.ports import StoredKeys
from tests.fakes.clock import LoopClock
from tests.fakes.key_store import KEY, FakeKeyStore

pytestmark = pytest.mark.looptime

POD = Bearer("v1", "Pod", "a", "p", "u")


def keeper(store: FakeKeyStore, letter: str = "x", *, acts: bool = True) -> KeyKeeper:
    made = KeyKeeper(store, LoopClock(), lambda count: letter.encode() * count)
    made.acting = lambda: acts
    return made


def stored(store: FakeKeyStore) -> list[str]:
    return [key.name for key in keys_of(store.data or {})]


async def test_the_first_process_puts_a_key_in() -> None:
    store = FakeKeyStore()
    one = keeper(store)
    assert one.notes.problem
    assert await one.look() == READ_EACH_S
    assert one.notes.problem == ""
    assert len(stored(store)) == 1
    other = keeper(store, "y")
    await other.look()
    text = one.notes.write(NoteKind.ADMITTED, POD, "n1")
    assert other.notes.read(NoteKind.ADMITTED, POD, text) == "n1"


async def test_two_processes_that_start_at_once_have_the_same_key() -> None:
    store = FakeKeyStore()
    one, other = keeper(store, "x"), keeper(store, "y")
    empty = await store.read()
    assert empty is not None
    await one.look()

    async def late() -> StoredKeys | None:
        store.read = genuine  # type: ignore[method-assign]
        return empty

    genuine, store.read = store.read, late  # type: ignore[method-assign]
    assert await other.look() < 1.0
    assert await other.look() == READ_EACH_S
    assert other.notes.ring.keys == one.notes.ring.keys


async def test_keys_are_rotated_by_the_one_that_acts() -> None:
    store = FakeKeyStore()
    leader, standby = keeper(store, "x"), keeper(store, "y", acts=False)
    await leader.look()
    first = leader.notes.write(NoteKind.ADMITTED, POD, "n1")
    for _ in range(KEPT):
        await asyncio.sleep(ROTATED_S)
        await standby.look()
        before = len(stored(store))
        await leader.look()
        assert len(stored(store)) == min(before + 1, KEPT)
        for _ in range(5):
            await asyncio.sleep(READ_EACH_S)
            await leader.look()
            await standby.look()
        text = leader.notes.write(NoteKind.ADMITTED, POD, "n2")
        assert standby.notes.read(NoteKind.ADMITTED, POD, text) == "n2"
        assert leader.notes.ring.signer.name == stored(store)[-1]
    assert leader.notes.read(NoteKind.ADMITTED, POD, first) is None


async def test_a_new_key_is_known_everywhere_before_it_signs() -> None:
    store = FakeKeyStore(KEY)
    leader, standby = keeper(store, "x"), keeper(store, "y", acts=False)
    tasks = [asyncio.create_task(one.run()) for one in (leader, standby)]
    await asyncio.sleep(1.0)
    store.put({**(store.data or {}), Key.new(LoopClock().now_s(), bytes).name: b"z" * 32})
    for _ in range(60):
        await asyncio.sleep(5.0)
        text = leader.notes.write(NoteKind.ADMITTED, POD, "n1")
        assert standby.notes.read(NoteKind.ADMITTED, POD, text) == "n1"
    assert leader.notes.ring.signer.secret == b"z" * 32
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_secret_that_is_made_again_gets_the_keys_back() -> None:
    store = FakeKeyStore(KEY)
    one = keeper(store)
    await one.look()
    text = one.notes.write(NoteKind.ADMITTED, POD, "n1")
    store.put(None)
    assert await one.look() == AGAIN_S
    assert one.notes.problem
    assert "there is no Secret netgang-system/netgang-notes" in one.notes.problem
    assert one.notes.read(NoteKind.ADMITTED, POD, text) == "n1"
    store.put({})
    await one.look()
    assert one.notes.problem == ""
    assert stored(store) == [KEY.name]


async def test_a_key_that_an_operator_takes_out_checks_nothing_any_more() -> None:
    store = FakeKeyStore(KEY)
    one = keeper(store)
    await one.look()
    text = one.notes.write(NoteKind.ADMITTED, POD, "n1")
    store.put({"20231113000000": b"n" * 32, "20231113": b"no name of a key", "20231112000000": b"short"})
    await one.look()
    assert [key.name for key in one.notes.ring.keys] == ["20231113000000"]
    assert one.notes.read(NoteKind.ADMITTED, POD, text) is None


@pytest.mark.parametrize("error", [ApiError(403, "forbidden"), ApiUnavailableError("refused")])
async def test_without_an_answer_notes_do_not_last(error: Exception) -> None:
    store = FakeKeyStore(KEY)
    store.error = error
    one = keeper(store)
    assert await one.look() == AGAIN_S
    assert one.notes.problem
    assert one.answered.is_set() == isinstance(error, ApiError)
    text = one.notes.write(NoteKind.ADMITTED, POD, "n1")
    assert one.notes.read(NoteKind.ADMITTED, POD, text) == "n1"
    store.error = None
    await one.look()
    assert one.notes.problem == ""


@pytest.mark.parametrize("error", [ApiUnavailableError("refused"), ApiError(500, "no KMS"), ApiError(429, "later")])
async def test_an_outage_changes_nothing_for_one_that_has_keys(error: Exception) -> None:
    store = FakeKeyStore(KEY)
    one = keeper(store)
    await one.look()
    store.error = error
    assert await one.look() == AGAIN_S
    assert one.notes.problem == ""
