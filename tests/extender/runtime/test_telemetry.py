"""Metrics with bounded labels, log lines with bounded volume; the last decisions of gangs that exist and a few more."""

import io
import json
import logging
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from extender.runtime import decision_lines as lines
from extender.runtime.decision_lines import DECISIONS, Decision, DecisionLog, RecentDecisions
from extender.runtime.log_lines import LogFormat, configure_logging
from extender.runtime.telemetry import Telemetry
from scoring import GangKey
from scoring.model.reasons import Reason
from tests.fakes.clock import FakeClock

REFUSAL = Decision("filter", pod="team-a/w-0", gang="team-a/resnet", reason=Reason.NO_ROOM, snapshot_version=7)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What is logged, in JSON until a test says otherwise."""
    root, made = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers[:], root.level
    configure_logging(log_format=LogFormat.JSON, stream=made)
    yield made
    root.handlers[:], root.level = handlers, level


def written(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_metrics_appear_with_their_labels() -> None:
    telemetry = Telemetry()
    telemetry.built_from("c0ffee")
    telemetry.request_done("filter", "refused", duration_s=0.002, reason=Reason.NO_ROOM)
    telemetry.gangs({"waiting": 2})
    telemetry.gangs({"running": 1})
    telemetry.planned(0.01)
    telemetry.leads(1)
    samples = {
        (sample.name.removeprefix("netgang_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(telemetry.exposition().decode())
        for sample in family.samples
        if sample.name.startswith("netgang_") and not sample.name.endswith(("_bucket", "_created")) and sample.value
    }
    assert samples == {
        ("request_duration_seconds_count", "filter"): 1, ("request_duration_seconds_sum", "filter"): 0.002,
        ("requests_total", "refused", "filter"): 1, ("refusals_total", Reason.NO_ROOM, "filter"): 1,
        ("gangs", "running"): 1, ("leader",): 1,
        ("plan_duration_seconds_count",): 1, ("plan_duration_seconds_sum",): 0.01,
        ("build_info", "c0ffee", version("netgang")): 1,
    }  # fmt: skip


def test_a_decision_is_one_line_of_json(stream: io.StringIO) -> None:
    decision = Decision(
        "prioritize", "team-a/w-0", "team-a/resnet", "n1", parts={"network": 7.5}, snapshot_version=3, duration_ms=0.25
    )
    assert DecisionLog().log_decision(decision, now_s=1.0)
    (line,) = written(stream)
    assert line.pop("time")
    where = {"pod": "team-a/w-0", "gang": "team-a/resnet", "node": "n1", "parts": {"network": 7.5}}
    rest = {"snapshot_version": 3, "duration_ms": 0.25}
    assert line == {"level": "INFO", "logger": DECISIONS, "message": "prioritize", **where, **rest}


def test_a_repeated_refusal_is_written_once_a_minute(stream: io.StringIO) -> None:
    log = DecisionLog(repeat_after_s=60.0)
    assert [log.log_decision(REFUSAL, now_s=5.0 + i / 1000) for i in range(1000)].count(True) == 1
    assert log.log_decision(REFUSAL, now_s=65.0)
    assert [line.get("repeated") for line in written(stream)] == [None, 999]


def test_a_new_refusal_is_written_at_once_and_a_yes_always(stream: io.StringIO) -> None:
    log = DecisionLog(refusals_per_s_max=4)
    changes = ({"pod": "team-a/w-1"}, {"reason": Reason.BEHIND}, {"what": "bind"})
    assert all(log.log_decision(replace(REFUSAL, **change), now_s=1.0) for change in ({}, *changes))
    assert all(log.log_decision(Decision("bind", pod="team-a/w-0", node="n1"), now_s=1.0) for _ in range(50))
    assert len(written(stream)) == 54


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
@pytest.mark.parametrize("step", [Decision("filter", pod="a/w-0", node="n1"), Decision("ungate", pod="a/w-0")], ids=str)
def test_steps_towards_a_bind_are_for_those_who_look_closely(step: Decision, level: str, stream: io.StringIO) -> None:
    configure_logging(log_format=LogFormat.JSON, stream=stream, level=level)
    heard = list[Decision]()
    log = DecisionLog(heard=heard.append)
    refused, bound = replace(step, reason=Reason.NO_ROOM), replace(step, what="bind")
    assert all(log.log_decision(one, now_s=1.0) for one in (step, refused, bound))
    lines = [(line["level"], line["message"], line.get("reason")) for line in written(stream)]
    rest = [("INFO", step.what, Reason.NO_ROOM), ("INFO", "bind", None)]
    assert lines == ([("DEBUG", step.what, None), *rest] if level == "DEBUG" else rest)
    assert heard == [step, refused, bound]


def test_refusals_of_one_second_are_bounded(stream: io.StringIO) -> None:
    log = DecisionLog(refusals_per_s_max=100)
    refusals = [Decision("filter", pod=f"team-a/w-{i}", reason=Reason.NO_ROOM) for i in range(10_000)]
    assert sum(log.log_decision(refusal, now_s=7.5) for refusal in refusals) == 100
    assert log.log_decision(refusals[-1], now_s=8.0)


def test_the_memory_of_refusals_is_bounded_by_count_and_age(stream: io.StringIO) -> None:
    log = DecisionLog(remembered_max=2, repeat_after_s=1000.0)
    first, second, third = (Decision("filter", pod=f"team-a/w-{i}", reason=Reason.NO_ROOM) for i in range(3))
    assert all(log.log_decision(refusal, now_s=1.0) for refusal in (first, second, third))
    assert [log.log_decision(refusal, now_s=2.0) for refusal in (second, third)] == [False, False]
    assert log.log_decision(first, now_s=2.0)
    log = DecisionLog(repeat_after_s=60.0)
    for now_s in range(3600):
        assert log.log_decision(replace(REFUSAL, pod=f"team-a/w-{now_s}"), now_s=float(now_s))
    assert len(log._seen) == 300
    assert not log.log_decision(replace(REFUSAL, pod="team-a/w-3599"), now_s=3600.0)


def test_people_get_words_instead_of_json(stream: io.StringIO) -> None:
    configure_logging(log_format=LogFormat.TEXT, stream=stream)
    DecisionLog().log_decision(REFUSAL, now_s=1.0)
    line = stream.getvalue()
    assert f"filter pod=team-a/w-0 gang=team-a/resnet reason='{Reason.NO_ROOM}' snapshot_version=7\n" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("log_format", [LogFormat.JSON, LogFormat.TEXT])
def test_exceptions_and_odd_values_do_not_break_a_line(log_format: LogFormat, stream: io.StringIO) -> None:
    configure_logging(log_format=log_format, stream=stream)
    try:
        raise KeyError("secret")
    except KeyError:
        logging.getLogger("netgang.test").exception("it failed in %s", "bind", extra={"fields": {"odd": object}})
    text = stream.getvalue()
    assert all(words in text for words in ("it failed in bind", "KeyError: 'secret'", "<class 'object'>"))
    if log_format is LogFormat.JSON:
        assert len(written(stream)) == 1


def test_the_last_counts_are_shown_and_nothing_else() -> None:
    telemetry = Telemetry()
    given: list[dict[str, int]] = [{"waiting": 2, "admitted": 1}, {"waiting": 0}, {}, {"admitted": 3, "starting": 4}]
    for now in given:
        telemetry.gangs(now)
        families = [one for one in telemetry.registry.collect() if one.name == "netgang_gangs"]
        assert {sample.labels["state"]: sample.value for one in families for sample in one.samples} == now


def key(number: int) -> GangKey:
    return GangKey(f"a/{number}")


def test_newest_first_and_few() -> None:
    recent = RecentDecisions(FakeClock())
    for number in range(lines.MOST_EACH + 2):
        recent.add(Decision(what=f"w{number}", gang="a/g", pod="p", node="n"))
    recent.add(Decision(what="filter", gang="a/g"))
    recent.add(Decision(what="bind"))
    told = recent.of_gang(GangKey("a/g"))
    assert (len(told), told[0].what, told[0].detail) == (lines.MOST_EACH, f"w{lines.MOST_EACH + 1}", "p on n")
    assert recent.of_gang(GangKey("a/other")) == ()


def test_reasons_that_take_turns_drive_nothing_out() -> None:
    recent, gang = RecentDecisions(FakeClock()), GangKey("a/g")
    for what in ("plan", "lapse", *["plan"] * 50):
        recent.add(Decision(what=what, gang=gang, reason="no room"))
    assert [one.what for one in recent.of_gang(gang)] == [*["plan"] * lines.MOST_REASONS, "lapse", "plan"]
    recent.add(Decision(what="plan", gang=gang, reason="behind"))
    assert [one.reason for one in recent.of_gang(gang)] == ["behind", *["no room"] * (lines.MOST_REASONS + 1)]


def test_the_gang_that_was_silent_longest_is_forgotten_first() -> None:
    recent = RecentDecisions(FakeClock())
    recent.add(Decision(what="admit", gang="a/g"))
    for number in range(lines.MOST_GANGS):
        recent.add(Decision(what="plan", gang=key(number)))
    assert (len(recent._of), recent.of_gang(GangKey("a/g"))) == (lines.MOST_GANGS, ())
    assert recent.of_gang(key(0))


@pytest.mark.parametrize("living", [0, 1, 500])
def test_gangs_that_are_gone_are_few(living: int) -> None:
    alive = {key(number) for number in range(living)}
    recent = RecentDecisions(FakeClock(), exists=lambda gang: gang in alive)
    for gang in alive:
        recent.add(Decision(what="plan", gang=gang))
    for number in range(10_000, 13_000):
        recent.add(Decision(what="admit", gang=key(number)))
        assert len(recent._of) <= living + lines.MOST_GONE
        assert recent.of_gang(key(max(number - lines.MOST_GONE // 2 + 1, 10_000))), "one that comes back finds its own"
    assert all(recent.of_gang(gang) for gang in alive)


def test_changes_of_all_gangs_newest_first() -> None:
    recent = RecentDecisions(FakeClock())
    for number in range(lines.MOST_CHANGES + 1):
        recent.add(Decision(what="bind", pod=f"p{number}"))
    recent.add(Decision(what="filter", pod="p"))
    recent.add(Decision(what="plan", gang="a/g", reason="no room"))
    assert [one.pod for _, one in recent.changes()] == [f"p{number}" for number in range(lines.MOST_CHANGES, 0, -1)]
    assert recent.count == lines.MOST_CHANGES + 1
