"""Long work in steps, between which other tasks may run (docs/safety.md S15)."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Ends with the result; each `yield` is a moment at which the work can be left for a while."""


def finish(steps: Steps[T]) -> T:
    """Do all of it at once.

    >>> def three() -> Steps[int]:
    ...     yield
    ...     return 3
    >>> finish(three())
    3
    """
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made
