"""Long work in steps, between which other tasks may run (docs/safety.md S15)."""

from collections.abc import Callable, Generator
from functools import wraps
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
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


def at_once(work: Callable[P, Steps[T]]) -> Callable[P, T]:
    """The same work where no other task waits: a function that gives the result of all steps."""

    @wraps(work)
    def done(*args: P.args, **kwargs: P.kwargs) -> T:
        return finish(work(*args, **kwargs))

    return done
