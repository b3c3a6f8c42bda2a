"""The sentences of perfSONAR's plugins, and what is never taken for a value."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.network.maddash_messages import MAX_MESSAGE_CHARS, CheckKind, Reading, Rejection, read_message

VALUES = {  # case: (kind, value, message)
    "throughput of zero": (CheckKind.THROUGHPUT, 0.0, " Average throughput is 0.000Gbps "),
    "owamp loss": (CheckKind.LOSS, 0.00012, " Average packet loss is 0.012% "),
    "ping loss": (CheckKind.LOSS, 0.0, "Average loss is 0.00%"),
    "owdelay -l -p": (CheckKind.LOSS, 0.0, "Average Loss is 0.000%"),
    "all packets lost": (CheckKind.LOSS, 1.0, " Average packet loss is 100.000% "),
    "loss with an exponent": (CheckKind.LOSS, 1e-7, "Average packet loss is 1e-05%"),
    "median delay": (CheckKind.ONE_WAY_DELAY, 2.5, "Average median delay is 2.5ms"),
    "95th percentile": (CheckKind.ONE_WAY_DELAY, 7.0, "Average 95th percentile of delay is 7ms"),
    "delay in msec": (CheckKind.ONE_WAY_DELAY, 2.5, "Average delay is 2.5 msec"),
    "delay in words": (CheckKind.ONE_WAY_DELAY, 2.5, "Average one-way latency is 2.5 milliseconds"),
    "delay in microseconds, a word": (CheckKind.ONE_WAY_DELAY, 0.25, "Mean one-way delay is 250 microseconds"),
    "delay in seconds, a word": (CheckKind.ROUND_TRIP, 2000.0, "Average ping time is 2 seconds."),
    "delay in msecs": (CheckKind.ONE_WAY_DELAY, 2.5, "Median delay is 2.5msecs"),
    "loss in words": (CheckKind.LOSS, 0.00012, "Avg packet loss is 0.012 percent."),
    "loss of a round trip is a loss": (CheckKind.LOSS, 0.1, "Average round trip packet loss is 10%"),
    "lost packets in percent": (CheckKind.LOSS, 0.1, "Average packets lost is 10 %"),
    "bandwidth": (CheckKind.THROUGHPUT, 9.4e9, "Average TCP bandwidth is 9.4 Gb/s"),
    "throughput in Gbit/s": (CheckKind.THROUGHPUT, 9.1e9, "Average throughput is 9.1 Gbit/s"),
    "throughput in Mbits/sec": (CheckKind.THROUGHPUT, 94e6, "Average throughput is 94 Mbits/sec"),
    "throughput in Gb/s": (CheckKind.THROUGHPUT, 9.1e9, "Average throughput is 9.1Gb/s"),
    "throughput in capitals": (CheckKind.THROUGHPUT, 9.1e9, "AVERAGE THROUGHPUT IS 9.1GBPS"),
    "as the plugin prints it": (
        CheckKind.LOSS,
        0.00012,
        "PS_CHECK_LOSS WARNING - Average packet loss is 0.012% | Count=4;; Min=0;; Max=0.1;; Average=0.012;;",
    ),
    "throughput in Tbps": (CheckKind.THROUGHPUT, 1.2e12, "Average throughput is 1.2Tbps"),
    "negative delay": (CheckKind.ONE_WAY_DELAY, -0.35, " Average minimum delay is -0.350ms "),
    "delay of zero": (CheckKind.ONE_WAY_DELAY, 0.0, " Average minimum delay is 0.000ms "),
    "other case": (CheckKind.ROUND_TRIP, 3.0, "average RTT is 3MS"),
    "no digit before the point": (CheckKind.ONE_WAY_DELAY, 0.5, "Average minimum delay is .5ms"),
}

REJECTED = {  # case: (reason, status, message)
    "no test found": (
        Rejection.UNKNOWN_STATUS,
        3,
        " Unable to find any tests with data in the given time range where source is 192.0.2.1 and destination is x",
    ),
    "unknown though numeric": (Rejection.UNKNOWN_STATUS, 3, "Average packet loss is 0.012%"),
    "not run": (Rejection.NOT_RUN, 4, "Check has not run"),
    "left over from maintenance": (Rejection.NOT_RUN, 4, " Average packet loss is 0.056% "),
    "maintenance": (Rejection.MAINTENANCE, 5, " Average packet loss is 0.056% "),
    "comparison by status": (Rejection.CUSTOM_STATUS, 6, "There is a 120.50% difference between forward and reverse"),
    "custom status": (Rejection.CUSTOM_STATUS, 17, "Average packet loss is 0.012%"),
    "a status below all": (Rejection.UNKNOWN_STATUS, -1, "Average packet loss is 0.012%"),
    "comparison": (
        Rejection.COMPARISON,
        1,
        " There is a 120.50% difference between forward and reverse one-way delay. ",
    ),
    "empty": (Rejection.EMPTY, 0, ""),
    "blank": (Rejection.EMPTY, 2, "  \n"),
    "null": (Rejection.EMPTY, 0, None),
    "packets per session": (Rejection.PACKETS_NOT_RATIO, 0, "Average Loss is 0.010 packets per session"),
    "total of packets": (Rejection.PACKETS_NOT_RATIO, 0, "Total Loss is 3 packets"),
    "a total": (Rejection.NOT_AVERAGE, 0, "Total throughput is 3Gbps"),
    "lost packets, counted": (Rejection.PACKETS_NOT_RATIO, 0, "Average packets lost is 10 packets"),
    "percent of throughput": (Rejection.WRONG_UNIT, 0, "Average throughput is 90 percent"),
    "minutes": (Rejection.NOT_NUMERIC, 0, "Average delay is 2 minutes"),
    "no sentence of ours": (Rejection.NOT_NUMERIC, 0, "Random result"),
    "not a number": (Rejection.NOT_NUMERIC, 0, "Average packet loss is nan%"),
    "infinite": (Rejection.NOT_NUMERIC, 0, "Average throughput is infGbps"),
    "text after the value": (Rejection.NOT_NUMERIC, 0, "Average packet loss is 0.012% of all"),
    "text before the value": (Rejection.NOT_NUMERIC, 0, "OK: Average packet loss is 0.012%"),
    "unit of another century": (Rejection.NOT_NUMERIC, 0, "Average throughput is 9.4 bauds"),
    "decimal comma": (Rejection.NOT_NUMERIC, 0, "Average packet loss is 0,012%"),
    "bytes": (Rejection.WRONG_UNIT, 0, "Average throughput is 9.4MB/s"),
    "bytes, abbreviated": (Rejection.WRONG_UNIT, 0, "Average throughput is 1.2GBps"),
    "decimal comma, many thousands": (Rejection.NOT_NUMERIC, 0, "Average throughput is 9,412,000bps"),
    "delay variation": (Rejection.OTHER_METRIC, 0, "Average delay variation is 0.5ms"),
    "jitter": (Rejection.OTHER_METRIC, 0, "Average one-way delay jitter is 0.5ms"),
    "difference of delays": (Rejection.OTHER_METRIC, 0, "Average difference of delay is 0.5ms"),
    "unknown, as the plugin prints it": (Rejection.NOT_NUMERIC, 0, "PS_CHECK_LOSS UNKNOWN - Average loss is 1%"),
    "another metric": (Rejection.OTHER_METRIC, 0, "Average path count is 3"),
    "loss without unit": (Rejection.WRONG_UNIT, 0, "Average Loss is 0.010"),
    "throughput in ms": (Rejection.WRONG_UNIT, 0, "Average throughput is 9.4ms"),
    "more than everything lost": (Rejection.OUT_OF_RANGE, 2, "Average packet loss is 100.001%"),
    "negative loss": (Rejection.OUT_OF_RANGE, 0, "Average packet loss is -0.001%"),
    "negative throughput": (Rejection.OUT_OF_RANGE, 0, "Average throughput is -1Gbps"),
    "negative round trip": (Rejection.OUT_OF_RANGE, 0, "Average minimum rtt is -1ms"),
    "beyond any link": (Rejection.OUT_OF_RANGE, 0, "Average throughput is 1e300Gbps"),
    "beyond any float": (Rejection.OUT_OF_RANGE, 0, "Average throughput is 1e999Gbps"),
    "absurd exponent": (Rejection.NOT_NUMERIC, 0, "Average throughput is 1e9999999Gbps"),
    "over-long": (Rejection.OVER_LONG, 0, "Average packet loss is 0.012%" + " " * MAX_MESSAGE_CHARS),
}


@pytest.mark.parametrize("status", [0, 1, 2])
@pytest.mark.parametrize(("kind", "value", "message"), VALUES.values(), ids=VALUES)
def test_values(kind: CheckKind, value: float, message: str, status: int) -> None:
    assert Reading(kind, value) == read_message(message, status=status)


@pytest.mark.parametrize(("reason", "status", "message"), REJECTED.values(), ids=REJECTED)
def test_rejections(reason: Rejection, status: int, message: str | None) -> None:
    assert reason is read_message(message, status=status)


@given(st.text(max_size=300), st.integers(-2, 9))
def test_any_text_has_an_answer(message: str, status: int) -> None:
    found = read_message(message, status=status)
    assert isinstance(found, Rejection) or re.search("average|avg|mean|median", message, re.IGNORECASE)


def test_long_messages_are_cheap() -> None:
    assert read_message("Average " + "is " * 80, status=0) is Rejection.NOT_NUMERIC
    assert read_message("Average " + "is " * 100_000, status=0) is Rejection.OVER_LONG
