"""Amounts: exact integers, rounded up, and their arithmetic."""

import tracemalloc
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.model.pod import LARGEST, Resources, amount, parse_quantity

QUANTITIES = {  # text: (whole units, thousandths)
    "0": (0, 0), "1": (1, 1000), "1.": (1, 1000), ".5": (1, 500), "+2": (2, 2000), "-1": (-1, -1000),
    "-1.5": (-1, -1500), " 4 ": (4, 4000), "1n": (1, 1), "1u": (1, 1), "1m": (1, 1), "0.5m": (1, 1),
    "1500m": (2, 1500), "15e-1": (2, 1500), "1e3": (1000, 1_000_000), "1E3": (1000, 1_000_000),
    "1k": (1000, 1_000_000), "1Ki": (1024, 1_024_000), "1.5Gi": (3 * 2**29, 3 * 2**29 * 1000), "1E": (10**18, None),
    "1Ei": (2**60, None), "1P": (10**15, 10**18), "100Mi": (100 * 2**20, 100 * 2**20 * 1000),
}  # fmt: skip


@pytest.mark.parametrize(("text", "want"), QUANTITIES.items(), ids=QUANTITIES)
def test_quantities(text: str, want: tuple[int, int | None]) -> None:
    """Every suffix and exponent counts, and a fraction of the unit rounds up (towards zero when it is negative)."""
    units, thousandths = want
    assert units == parse_quantity(text)
    if thousandths is not None:
        assert thousandths == parse_quantity(text, millis=True)


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1KiB", "0x10", "1e", "1,5", "NaN", "inf", "--1", "1e9999", "½"])
def test_what_is_not_a_quantity_is_refused(text: str) -> None:
    """A text that Kubernetes would not take is an error that says what a quantity looks like."""
    with pytest.raises(ValueError, match=r"^memory: .* is not a quantity such as 500m, 2 or 4Gi"):
        Resources.parse({"cpu": "1", "memory": text})


@pytest.mark.parametrize("text", ["5E", "1e30", "-1e30", "9223372036854775807", "9" * 64, "1e999"])
def test_amounts_that_no_machine_has_count_as_the_most(text: str) -> None:
    """What would leave int64 when two are added is the largest that does not: no error, and never a wrap-around."""
    assert (-LARGEST if text.startswith("-") else LARGEST) == parse_quantity(text) == parse_quantity(text, millis=True)
    assert 2 * LARGEST < 2**63


@pytest.mark.parametrize("text", ["1" * 2**20, "." + "0" * 64, " " * 65, "1e" + "9" * 1_000_000], ids=lambda t: t[:3])
def test_what_is_longer_than_any_quantity_is_not_looked_at(text: str) -> None:
    """A megabyte of digits, or a name as long, is an error, shortly told and not remembered (docs/safety.md S21)."""
    tracemalloc.start()
    try:
        for digit in range(10):
            with pytest.raises(ValueError, match=r"^.{,60} is not a quantity such as 500m, 2 or 4Gi: too long$"):
                parse_quantity(f"{text}{digit}")
        with pytest.raises(ValueError, match="too long"):
            Resources.parse({"x" * 1_000_000: "1"})
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 500_000


@given(st.integers(0, 10**6), st.integers(0, 10**6 - 1), st.sampled_from(["", "k", "Ki", "m", "u", "n"]))
def test_rounding_up_is_exact(whole: int, decimals: int, suffix: str) -> None:
    """The answer is the smallest whole number not below the exact value."""
    small: dict[str, int | Fraction] = {unit: Fraction(1, 1000**i) for i, unit in enumerate(["", "m", "u", "n"])}
    factor = small | {"k": 1000, "Ki": 1024}
    exact = (Fraction(whole) + Fraction(decimals, 10**6)) * factor[suffix]
    got = parse_quantity(f"{whole}.{decimals:06d}{suffix}")
    assert got - 1 < exact <= got


def test_equal_amounts_are_equal_whatever_their_order() -> None:
    """Order and zeros do not matter, so equal requests share a member class; YAML reads some as numbers."""
    assert (amount("cpu", 0.5), amount("cpu", 1e-7)) == (500, 1)
    one = Resources.parse({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "0"})
    other = Resources.parse({"memory": "1024Mi", "cpu": "1000m"})
    assert (one, hash(one)) == (other, hash(other))
    assert list(one) == [("cpu", 1000), ("memory", 2**30)]
