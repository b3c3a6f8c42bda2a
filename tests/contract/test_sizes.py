"""The ratchet: no size of the tree is above its number in sizes.toml, and no number is far above its size."""

import pytest

from lab.bench.sizes import Row, table


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    return tuple(table())


def test_sizes_are_at_most_their_numbers_and_at_most_2_percent_below(rows: tuple[Row, ...]) -> None:
    assert {row.name: row.problem for row in rows if row.problem is not None} == {}


def test_tests_are_at_most_so_many_times_the_product(rows: tuple[Row, ...]) -> None:
    sizes = {row.name: row.measured for row in rows}
    assert sizes["tests_lines"] <= 1.35 * sizes["product_lines"]
