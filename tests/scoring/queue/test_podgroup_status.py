"""PodGroup status: each phase by its promise, counts that add up, and a result that stays when it is written."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import JobKey, NodeName
from scoring.model import Gang, GroupStatus, Phase, Pod
from scoring.model.reasons import Reason
from scoring.queue.states import GroupPhase, wanted_status
from tests.builders import gang, pod

KINDS: dict[str, dict[str, Any]] = {
    # letter → what a member is
    "p": {},
    "b": {"node": NodeName("n1"), "phase": Phase.PENDING},
    "r": {"node": NodeName("n1"), "phase": Phase.RUNNING},
    "s": {"node": NodeName("n1"), "phase": Phase.SUCCEEDED},
    "f": {"node": NodeName("n1"), "phase": Phase.FAILED},
    "d": {"node": NodeName("n1"), "phase": Phase.RUNNING, "deleting": True},
}


def members(letters: str) -> list[Pod]:
    """One pod per letter, created one second after the other."""
    made = [pod(f"g-{i}", gang="g", index=i, created_s=float(i)) for i in range(len(letters))]
    return [replace(one, **KINDS[letter]) for one, letter in zip(made, letters, strict=True)]


def of(letters: str, least: int, **fields: Any) -> Gang:
    return replace(gang("g", members=members(letters), min_member=least), **fields)


PHASES: dict[str, tuple[str, str, int, bool]] = {
    # case: (phase, members, minimum, whether the plan has places for it)
    "fewer pods than must run": ("Pending", "pp", 3, False),
    "fewer, whatever the plan says": ("Pending", "pp", 3, True),
    "being deleted as a whole": ("Pending", "ddd", 3, False),
    "waits": ("PreScheduling", "ppp", 3, False),
    "waits with more than it needs": ("PreScheduling", "pppp", 3, False),
    "has been given its places": ("Scheduling", "ppp", 3, True),
    "bound in part": ("Scheduling", "bpp", 3, True),
    "a member was lost and is missing": ("Scheduling", "rr", 3, False),
    "a lost member waits again": ("Scheduling", "rrp", 3, False),
    "bound": ("Scheduled", "bbb", 3, False),
    "bound, and some run": ("Scheduled", "rbb", 3, False),
    "runs": ("Running", "rrr", 3, False),
    "runs, and more wait": ("Running", "rrrp", 3, True),
    "runs, one is done": ("Running", "srr", 3, False),
    "runs on though one beyond the minimum failed": ("Running", "rrrf", 3, False),
    "done": ("Finished", "sss", 3, False),
    "done with the minimum": ("Finished", "sssr", 3, False),
    "one failed, the rest are too few": ("Failed", "rrf", 3, False),
    "all failed": ("Failed", "fff", 3, False),
    "one failed and its successor waits": ("Scheduling", "rrfp", 3, False),
    "one failed and its successor runs": ("Running", "rrfr", 3, False),
}


@pytest.mark.parametrize(("want", "letters", "least", "admitted"), PHASES.values(), ids=PHASES)
def test_phases(want: str, letters: str, least: int, admitted: bool) -> None:
    assert want == wanted_status(of(letters, least), GroupStatus(), admitted=admitted).phase
    if want in ("PreScheduling", "Pending"):
        broken = of(letters, least, problem=Reason.INVALID_GROUP)
        assert wanted_status(broken, GroupStatus(), admitted=admitted).phase == "Pending"


def test_counts() -> None:
    """Scheduled are those that count for quorum; pods on their way out run no more; each job is named once, sorted."""
    jobs = [replace(one, job=JobKey(f"t/{name}")) for one, name in zip(members("pbrsfd"), "babbab", strict=True)]
    status = wanted_status(gang("g", members=jobs), GroupStatus(), admitted=False)
    assert (status.scheduled, status.running, status.succeeded, status.failed) == (3, 1, 1, 1)
    assert status.occupied_by == "t/a,t/b"


STARTS: dict[str, tuple[int | None, str, GroupStatus]] = {
    # case: (start, members (created at 0, 1, 2, …; three must run), status before)
    "not yet": (None, "pp", GroupStatus()),
    "since the third pod": (2, "pppp", GroupStatus()),
    "kept": (77, "rrr", GroupStatus("PreScheduling", schedule_start_s=77)),
    "kept while a member is replaced": (77, "rrp", GroupStatus("Running", schedule_start_s=77)),
    "gone with the pods": (None, "pp", GroupStatus("PreScheduling", schedule_start_s=77)),
    "anew after the end": (5, "fffppp", GroupStatus("Failed", schedule_start_s=1)),
    "kept at the end": (77, "sss", GroupStatus("Running", schedule_start_s=77)),
}


@pytest.mark.parametrize(("want", "letters", "before"), STARTS.values(), ids=STARTS)
def test_start_times(want: int | None, letters: str, before: GroupStatus) -> None:
    """Since when enough pods exist, told by the pods alone and kept once written."""
    assert want == wanted_status(of(letters, 3), before, admitted=False).schedule_start_s


ENDS: dict[str, tuple[str, str | None, str]] = {
    # case: (phase, members left (`None`: no pod at all), phase before; three must run)
    "its pods are cleaned up": ("Finished", "ss", "Finished"),
    "all are": ("Finished", None, "Finished"),
    "a failed one is": ("Failed", "s", "Failed"),
    "it begins anew": ("PreScheduling", "fffppp", "Failed"),
    "the rest succeeds after all": ("Finished", "fsss", "Failed"),
    "a suspended job's pods are gone": ("Pending", None, "Running"),
    "nothing was ever written": ("Pending", None, ""),
}


@pytest.mark.parametrize(("want", "letters", "before"), ENDS.values(), ids=ENDS)
def test_the_end_stays_while_nothing_lives(want: str, letters: str | None, before: str) -> None:
    left = of(letters, 3) if letters is not None else None
    assert want == wanted_status(left, GroupStatus(before), admitted=False).phase


lives = st.text(alphabet="".join(KINDS), min_size=1, max_size=8)
befores = st.builds(
    GroupStatus,
    phase=st.sampled_from(["", *GroupPhase]),
    scheduled=st.integers(0, 8),
    running=st.integers(0, 8),
    schedule_start_s=st.none() | st.integers(0, 99),
)


@given(lives, st.integers(1, 8), befores, st.booleans())
def test_what_is_written_stays(letters: str, least: int, before: GroupStatus, admitted: bool) -> None:
    """Asking again with the result as what was there gives the result: our own write is never a reason to write."""
    once = wanted_status(of(letters, least), before, admitted=admitted)
    assert once == wanted_status(of(letters, least), once, admitted=admitted)


@given(st.permutations(list("pbrsfd")), st.integers(1, 6), befores)
def test_the_order_of_pods_does_not_matter(letters: Iterable[str], least: int, before: GroupStatus) -> None:
    before = replace(before, schedule_start_s=3)
    one, other = (wanted_status(of(some, least), before, admitted=False) for some in ("".join(letters), "bdfprs"))
    assert replace(one, schedule_start_s=None) == replace(other, schedule_start_s=None)


@given(lives, st.integers(1, 8))
def test_counts_fit_the_phase(letters: str, least: int) -> None:
    status = wanted_status(of(letters, least), GroupStatus(), admitted=False)
    assert status.running + status.succeeded <= status.scheduled <= len(letters)
    match status.phase:
        case GroupPhase.FINISHED:
            assert status.succeeded >= least
        case GroupPhase.RUNNING:
            assert status.running + status.succeeded >= least
        case GroupPhase.SCHEDULED:
            assert status.scheduled >= least
        case GroupPhase.FAILED:
            assert status.failed
        case _:
            assert status.scheduled < least


@given(lives, st.integers(1, 8), st.integers(0, 7))
def test_a_member_that_comes_to_run_never_sets_a_gang_back(letters: str, least: int, place: int) -> None:
    order = list(GroupPhase)[:5]
    place %= len(letters)
    better = letters[:place] + "r" + letters[place + 1 :]
    phases = [wanted_status(of(one, least), GroupStatus(), admitted=False).phase for one in (letters, better)]
    if letters[place] in "pb" and set(phases) <= {phase.value for phase in order}:
        assert order.index(GroupPhase(phases[1])) >= order.index(GroupPhase(phases[0]))
