"""Former runs in their ConfigMap: restarts, other writers, damage, refusals, and what goes on without it."""

from collections.abc import Sequence

import pytest

from extender.cache import ClusterCache
from extender.controllers.lengths.keeper import AGAIN_S, EACH_S, MOST_AGAIN_S, FormerRunsKeeper
from extender.errors import ApiError, ApiUnavailableError
from extender.notes import NoteKind, Notes
from extender.notes.signed_text import MOST_TEXT, signed
from extender.runtime.telemetry import Telemetry
from scoring.ids import GangKey
from scoring.lengths.fingerprint import fingerprint
from scoring.lengths.former_runs import LEAST, Run
from scoring.model import Pod
from scoring.plan.expected import Result
from tests.builders import pod
from tests.fakes.notes import notes_of_a_former_process
from tests.fakes.text_store import FakeTextStore

JOB = fingerprint("default", "", "g", "")
RUNS = [Run(100, number) for number in range(LEAST)]


def keeper(store: FakeTextStore, *, notes: Notes | None = None, acts: bool = True) -> FormerRunsKeeper:
    cache = ClusterCache()
    cache.lengths.enabled = True
    notes = notes if notes is not None else notes_of_a_former_process()
    return FormerRunsKeeper(store, cache, notes, Telemetry().length_metrics, acting=lambda: acts)


def median_s(one: FormerRunsKeeper) -> float | None:
    length = one.cache.lengths.former.length(JOB)
    return length.at_s(0.5) if length is not None else None


async def seen(store: FakeTextStore, runs: Sequence[Run] = RUNS, *, acts: bool = True) -> FormerRunsKeeper:
    """A process that has read the ConfigMap, seen these runs, and looked once more."""
    one = keeper(store, acts=acts)
    await one.look()
    for run in runs:
        one.record(JOB, run)
    await one.look()
    return one


async def test_what_was_seen_is_known_after_a_restart() -> None:
    store = FakeTextStore()
    first = await seen(store)
    again = keeper(store)
    assert median_s(again) is None
    assert await again.look() == EACH_S
    assert (median_s(first), median_s(again), again.problem) == (100.0, 100.0, "")


async def test_what_intervals_were_worth_is_known_after_a_restart() -> None:
    """An older document has none; of two calibrations that of more intervals counts, and a standby follows."""
    store = FakeTextStore()
    first = await seen(store)
    standby = keeper(store, acts=False)
    for result, promised in ((Result.LATE, True), (Result.LATE, False), (Result.INSIDE, False), (Result.EARLY, True)):
        known = first.intervals.calibration
        first.intervals.calibration = known.with_result(result, promised=promised)
    await first.look()
    writes = store.writes
    again = keeper(store)
    for one in (first, again, standby):
        assert await one.look() == EACH_S
        assert one.intervals.calibration == first.intervals.calibration
    assert (store.writes, again.intervals.calibration.known) == (writes, 4)
    again.intervals.calibration = again.intervals.calibration.with_result(Result.LATE, promised=True)
    await again.look()
    await first.look()
    assert (first.intervals.calibration.known, store.writes) == (5, writes + 1)


async def test_a_document_of_a_netgang_that_kept_no_intervals_is_read() -> None:
    store = FakeTextStore()
    first = await seen(store)
    assert store.stored is not None
    text = store.stored.text[: store.stored.text.index(',"intervals"')] + "}"
    store.put(text, signed(NoteKind.FORMER_RUNS, text, store.stored, first.notes))
    again = keeper(store)
    await again.look()
    assert (median_s(again), again.problem, again.intervals.calibration.known) == (100.0, "", 0)


async def test_only_the_one_that_acts_writes_and_others_follow() -> None:
    store = FakeTextStore()
    standby = await seen(store, acts=False)
    assert store.writes == 0
    assert store.stored is not None
    assert store.stored.text == ""
    await seen(store, [Run(50, 10 + number) for number in range(LEAST)])
    await standby.look()
    length = standby.cache.lengths.former.length(JOB)
    assert length is not None
    assert (length.quantiles_s[0], length.quantiles_s[-1]) == (50.0, 100.0)  # its own runs are not lost


async def test_nothing_new_is_not_written() -> None:
    store = FakeTextStore()
    one = await seen(store)
    writes = store.writes
    for _ in range(3):
        assert await one.look() == EACH_S
    assert store.writes == writes == 1


async def test_of_two_that_write_at_once_the_second_reads_again() -> None:
    store = FakeTextStore()
    one, other = await seen(store, []), await seen(store, [])
    before = store.stored
    for run in RUNS:
        one.record(JOB, run)
        other.record(JOB, Run(300, run.ended_s))
    await one.look()
    genuine = store.read

    async def late() -> object:
        store.read = genuine  # type: ignore[method-assign]
        return before

    store.read = late  # type: ignore[assignment, method-assign]
    assert await other.look() < AGAIN_S
    assert await other.look() == EACH_S
    last = keeper(store)
    await last.look()
    assert sum(len(runs) for _, runs in last.cache.lengths.former.jobs()) == 2 * LEAST


DAMAGE = {  # case: what another client writes over the text
    "not JSON": lambda text: text[:-7],
    "another's runs": lambda text: text.replace("100", "999"),
    "too large": lambda text: text + " " * MOST_TEXT,
    "nested": lambda _: "[" * 100_000,
}


@pytest.mark.parametrize("damaged", DAMAGE.values(), ids=DAMAGE)
async def test_what_netgang_did_not_write_teaches_nothing_and_is_said(damaged: object) -> None:
    """Its signature fits no other text; lengths are unknown, and a new start goes on."""
    store = FakeTextStore()
    await seen(store)
    assert store.stored is not None
    store.put(damaged(store.stored.text), store.stored.note)  # type: ignore[operator]
    one = keeper(store)
    assert await one.look() == EACH_S
    assert median_s(one) is None
    assert "is not used: it " in one.problem
    for run in RUNS:
        one.record(JOB, run)
    await one.look()
    assert one.problem == ""
    again = keeper(store)
    await again.look()
    assert median_s(again) == 100.0


@pytest.mark.parametrize("text", ["", "spoilt"])
async def test_a_process_that_knows_runs_puts_them_back(text: str) -> None:
    """After the ConfigMap was emptied or damaged."""
    store = FakeTextStore()
    one = await seen(store)
    store.put(text)
    await one.look()
    assert (median_s(one), one.problem) == (100.0, "")
    again = keeper(store)
    await again.look()
    assert median_s(again) == 100.0


async def test_runs_signed_for_another_object_are_not_used() -> None:
    """Copied from another cluster, or made again under the same name."""
    store = FakeTextStore()
    await seen(store)
    assert store.stored is not None
    store.put(store.stored.text, store.stored.note, uid="uid-of-another")
    one = keeper(store)
    await one.look()
    assert median_s(one) is None
    assert "was not written by netgang" in one.problem


REFUSALS = {  # case: (what the API server does, words of the problem)
    "no right": (ApiError(403, "configmaps is forbidden"), "forbidden"),
    "no answer": (ApiUnavailableError("timed out"), "timed out"),
}


@pytest.mark.parametrize(("error", "words"), REFUSALS.values(), ids=REFUSALS)
async def test_what_cannot_be_read_is_said_and_asked_for_less_and_less_often(error: Exception, words: str) -> None:
    store = FakeTextStore()
    store.error = error
    one = keeper(store)
    pauses = [await one.look() for _ in range(9)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (AGAIN_S, MOST_AGAIN_S)
    assert words in one.problem
    for run in RUNS:
        one.record(JOB, run)
    assert median_s(one) == 100.0  # this process still learns
    store.error = None
    assert await one.look() == EACH_S
    assert (one.problem, store.writes) == ("", 1)


async def test_without_the_config_map_the_way_out_is_said() -> None:
    store = FakeTextStore()
    store.stored = None
    one = keeper(store)
    await one.look()
    assert one.problem == (
        "there is no ConfigMap netgang-system/netgang-former-runs: apply manifests/components/lengths"
    )


async def test_without_keys_nothing_is_judged_or_written() -> None:
    """The history would be taken for another's, and written over."""
    store = FakeTextStore()
    await seen(store)
    notes = notes_of_a_former_process()
    notes.problem = "the Secret has not been read yet"
    one = keeper(store, notes=notes)
    await one.look()
    one.record(JOB, RUNS[0])
    await one.look()
    assert (one.problem, store.writes) == (notes.problem, 1)
    notes.problem = ""
    await one.look()
    assert (median_s(one), one.problem, store.writes) == (100.0, "", 2)


async def test_gangs_get_the_lengths_that_were_read() -> None:
    store = FakeTextStore()
    await seen(store)
    one = keeper(store)
    members: list[Pod] = [pod(f"g-{number}", gang="g", min_available=2) for number in range(2)]
    one.cache.pods.replace(members)
    assert one.cache.snapshot().gangs[GangKey("default/g")].length is None
    await one.look()
    length = one.cache.snapshot().gangs[GangKey("default/g")].length
    assert length is not None
    assert (length.source.value, length.at_s(0.5)) == ("learned", 100.0)


async def test_gangs_of_a_list_that_is_being_read_have_their_lengths_too() -> None:
    """After a restart the text may be read in the middle of the first list: no snapshot has its gangs yet."""
    store = FakeTextStore()
    await seen(store)
    again = keeper(store)
    with again.cache.batch():
        again.cache.pods.replace([pod(f"g-{number}", gang="g", min_available=2) for number in range(2)])
        assert again.cache.partial_gangs() == frozenset()  # its gangs have records now
        await again.look()
    length = again.cache.snapshot().gangs[GangKey("default/g")].length
    assert length is not None
    assert length.at_s(0.5) == 100.0
