"""What the recorded grids of a real MaDDash 5.0.8 say, written out by hand from the recordings, pair by pair.

Rows are sources, columns are destinations, in the order of the recordings. Values are in the printed unit; a word is
the reason for which the cell has no value; `-` is a cell without a check. Short names stand for the ids in `ENDS`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from scoring.network.matrix import Measurement, Metric

FIXTURES = Path(__file__).parents[2] / "fixtures" / "maddash"

ENDS = {
    "s1": "ps1.zone-a.example.org",
    "s2": "ps2.zone-a.example.org",
    "s3": "ps1.zone-b.example.org",
    "s4": "ps2.zone-b.example.org",
    "s5": "ps1.zone-c.example.org",
    "s6": "2001:db8:c::2",
}
RUN_1_S = 1795248238.0
RUN_2_S = 1795248359.0

LOSS_PERCENT = """
        s4              s1              s2              s3       s5       s6
    s4  -               not_run         0.000           0.000    0.056    0.037
    s1  0.000           -               0.000           0.000    0.067    0.000
    s2  unknown_status  0.000           -               0.012    0.030    0.059
    s3  0.000           0.000           0.000           -        -        1.000
    s5  0.044           100.000         maintenance     0.052    -        0.000
    s6  0.030           unknown_status  0.041           0.037    0.000    -
"""
DELAY_MS = """
        s4      s1      s2      s3      s5             s6
    s4  -       12.865  12.868  0.558   44.024         44.024
    s1  12.025  -       0.427   12.025  custom_status  31.027
    s2  12.023  0.457   -       12.027  31.030         unknown_status
    s3  0.527   -0.350  12.863  -       44.024         44.027
    s5  47.103  33.194  33.197  47.106  -              0.623
    s6  47.101  33.197  33.196  47.102  0.000          -
"""
THROUGHPUT_GBPS = """
        s4              s1      s2      s3              s5      s6
    s4  -               8.977   9.022   87.108          3.151   0.000
    s1  8.924           -       92.365  9.160           3.999   3.999
    s2  8.604           87.131  -       8.874           3.881   4.032
    s3  88.811          8.865   9.045   -               3.030   3.086
    s5  3.182           4.001   4.036   unknown_status  -       35.691
    s6  unknown_status  3.988   3.871   3.140           36.218  -
"""
# The two checks of a cell, from row to column and back, in a grid of 2 rows and 4 columns.
FORWARD_GBPS = """
        s4     s3     s5     s6
    s1  8.924  9.160  3.999  3.999
    s2  8.604  8.874  3.881  4.032
"""
REVERSE_GBPS = """
        s4     s3     s5     s6
    s1  8.977  8.865  4.001  3.988
    s2  9.022  9.045  4.036  3.871
"""


def pairs(table: str) -> Iterator[tuple[str, str, str]]:
    r"""The cells of a table: row id, column id, text; cells without a check are left out.

    >>> list(pairs("      s1  s2\n  s1  -   0.5"))
    [('ps1.zone-a.example.org', 'ps2.zone-a.example.org', '0.5')]
    """
    header, *lines = (line.split() for line in table.strip("\n").splitlines() if line.strip())
    for row, *cells in lines:
        assert len(cells) == len(header), row
        for column, text in zip(header, cells, strict=True):
            if text != "-":
                yield ENDS[row], ENDS[column], text


def values(table: str, *, factor: float) -> dict[tuple[str, str], float]:
    return {(row, column): float(text) * factor for row, column, text in pairs(table) if not text.isidentifier()}


def reasons(table: str) -> dict[str, int]:
    words = [text for _, _, text in pairs(table) if text.isidentifier()]
    return {word: words.count(word) for word in words}


def body(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


LOSS = values(LOSS_PERCENT, factor=0.01)
DELAY = {pair: max(ms, 0.0) for pair, ms in values(DELAY_MS, factor=1.0).items()}
THROUGHPUT = values(THROUGHPUT_GBPS, factor=1e9)
FORWARD = values(FORWARD_GBPS, factor=1e9)
BOTH = FORWARD | {(column, row): value for (row, column), value in values(REVERSE_GBPS, factor=1e9).items()}


def agree(found: Iterable[Measurement]) -> None:
    for metric, wanted in ((Metric.LOSS, LOSS), (Metric.DELAY, DELAY), (Metric.THROUGHPUT, THROUGHPUT)):
        values = {(str(one.source), str(one.target)): one.value for one in found if one.metric is metric}
        assert values == pytest.approx(wanted, rel=1e-12, abs=1e-15), metric
