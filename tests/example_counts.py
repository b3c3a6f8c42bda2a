"""How many examples a property is tried with, where it is not the number of the Hypothesis profile (tests/conftest.py).

Use them as decorators, `@FEW`, or as the base of other settings, `settings(FEW, stateful_step_count=25)`; `times` for
what draws its own chance.
"""

from hypothesis import settings


def _times(ratio: float) -> settings:
    return settings(max_examples=max(round(settings.default.max_examples * ratio), 5))  # type: ignore[union-attr]


FEW = _times(0.2)  # an example takes a tenth of a second: dozens of plans, or a service with its API server
THOROUGH = _times(2.0)  # a promise of docs/safety.md whose counter-examples are rare.
MANY = _times(8.0)  # hostile input, which is quickly read


def times(few: int) -> int:
    """How many bodies, seeds or rounds, where no property draws them: twenty times as many in a nightly run."""
    return few * max(settings.default.max_examples // 100, 1)  # type: ignore[union-attr]
