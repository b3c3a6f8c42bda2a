"""Many gangs at once as one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.lengths import Length, LengthSource, remaining_s
from scoring.lengths.many import remaining_of_many

seconds = st.one_of(st.sampled_from([1.0, 50.0, 100.0]), st.floats(1.0, 1e6))
gangs = st.lists(
    st.tuples(st.lists(seconds, min_size=5, max_size=5).map(sorted), st.one_of(st.just(0.0), seconds)),
    min_size=1,
    max_size=8,
)


@given(drawn=gangs, level=st.sampled_from([0.1, 0.5, 0.8, 0.9, 0.98]))
def test_what_remains_is_the_same(drawn: list[tuple[list[float], float]], level: float) -> None:
    """Equal but for rounding, whatever the quantiles and however long the gangs have run."""
    lengths = [Length(LengthSource.LEARNED, tuple(at_s)) for at_s, _ in drawn]  # type: ignore[arg-type]
    one_by_one = [remaining_s(length, ran_s, level) for length, (_, ran_s) in zip(lengths, drawn, strict=True)]
    quantiles_s, ran_s = np.array([at_s for at_s, _ in drawn]), np.array([ran_s for _, ran_s in drawn])
    for found in remaining_of_many(quantiles_s, ran_s, [level, level]):
        assert one_by_one == pytest.approx(found.tolist(), rel=1e-9, abs=1e-6)


def test_of_no_gang() -> None:
    """Nothing runs."""
    assert [len(one) for one in remaining_of_many(np.zeros((0, 5)), np.zeros(0), [0.8])] == [0]
