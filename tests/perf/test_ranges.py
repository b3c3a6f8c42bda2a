"""The regression gate: ratios of two speeds in one run stay within the ranges that stand beside the measured ones."""

import re
import shutil
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from lab.bench.http import ECHO_FACTORY, Connection, Server, build_go_echo, running
from tests.perf.pairs import IN_PROCESS, OVER_HTTP, Pair, filter_over_http, ratio

RANGES = {
    one["name"]: one for one in tomllib.loads(Path(__file__).with_name("ranges.toml").read_text())["range"]
}  # name → measured and most
ROOT = Path(__file__).parents[2]
HAS_GO = bool(shutil.which("go")) or Path("/usr/local/go/bin/go").exists()


def within(name: str, found: float) -> bool:
    return 0.0 < found <= float(RANGES[name]["most"])


def gate(name: str, found: float) -> None:
    assert within(name, found), f"{name}: {found:.3f}, range {RANGES[name]}"


@pytest.mark.parametrize(("name", "make"), IN_PROCESS.items(), ids=IN_PROCESS)
def test_ratio(name: str, make: Callable[[], Pair]) -> None:
    """Our way takes at most so many times what the reference takes, median of five turns.

    Other processes can disturb one measurement; slower code disturbs three.
    """
    gate(name, next((found for _ in range(2) if within(name, found := ratio(make()))), None) or ratio(make()))


@pytest.mark.slow
@pytest.mark.timeout(300)  # Go builds its program once
@pytest.mark.skipif(not HAS_GO, reason="needs Go for the program beside which it is measured")
def test_ratio_to_go() -> None:
    with ExitStack() as stack:
        server = [sys.executable, "-m", "lab.bench.http", "--serve", "--factory", ECHO_FACTORY]
        servers = [stack.enter_context(running(command)) for command in (server, [str(build_go_echo())])]
        ours, theirs = (stack.enter_context(closing(Connection(one.port))) for one in servers)
        found = ratio(filter_over_http(ours, theirs), clock=lambda: sum(map(_cpu_s, servers)))
    gate(OVER_HTTP, found)


def _cpu_s(server: Server) -> float:
    """CPU that another process has used: its own clock, by the number Linux gives it."""
    return time.clock_gettime((~server.pid << 3) | 2)


@pytest.mark.parametrize("name", RANGES)
def test_ranges_are_three_times_what_was_measured(name: str) -> None:
    """A range that is widened without a measurement shows."""
    assert RANGES[name]["most"] == pytest.approx(3.0 * RANGES[name]["measured"])


def test_every_pair_has_a_range() -> None:
    assert RANGES.keys() == {*IN_PROCESS, OVER_HTTP}


@pytest.mark.parametrize("name", RANGES)
def test_a_worsened_record_is_refused(name: str) -> None:
    measured = float(RANGES[name]["measured"])
    gate(name, measured)
    for worse in (3.1 * measured, 100.0 * measured, 0.0):
        with pytest.raises(AssertionError, match="range"):
            gate(name, worse)


@pytest.mark.parametrize("name", ["read a filter call, by json.loads", "read pods, by json.loads"])
def test_slower_code_is_refused(name: str) -> None:
    pair = IN_PROCESS[name]()

    def slower() -> None:
        for _ in range(10):
            pair.ours()

    repeat = max(pair.repeat // 10, 1)
    with pytest.raises(AssertionError, match=name):
        gate(name, ratio(Pair(slower, pair.reference, repeat=repeat)))


def test_every_change_is_held_against_it() -> None:
    assert {"make test", "make e2e"} <= set((ROOT / ".ci" / "run").read_text().splitlines())
    made = (ROOT / "Makefile").read_text()
    test, e2e = (made.partition(f"\n{name}:")[2].partition("\n\n")[0].splitlines() for name in ("test", "e2e"))
    [quick] = [line for line in test if "pytest" in line]
    [cluster, slow] = [line for line in e2e if "pytest" in line]
    apart = ["tests/e2e", "tests/browser"]
    assert re.findall(r"--ignore=(\S+)", quick) == re.findall(r"--ignore=(\S+)", slow) == apart
    assert re.findall(r" (tests/\S+)", cluster) == apart
    assert ('-m "not slow"' in quick, "-m slow" in slow) == (True, True)


def test_the_median_of_turns_outlives_slow_ones() -> None:
    times = iter([1.0] * 2 + [50.0] * 2 + [1.0] * 2)  # of what a turn takes, in the order of the actions
    order: list[str] = []
    now_s = 0.0

    def clock() -> float:
        return now_s

    def does(name: str, seconds: float) -> Callable[[], None]:
        def action() -> None:
            nonlocal now_s
            order.append(name)
            now_s += seconds * (next(times, 1.0) if name == "ours" and len(order) > 2 else 1.0)

        return action

    assert ratio(Pair(does("ours", 2.0), does("theirs", 4.0)), clock=clock) == pytest.approx(0.5)
    assert order[2:6] == ["ours", "theirs", "theirs", "ours"]
