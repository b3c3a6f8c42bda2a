"""How long a bind call may take in all: what kube-scheduler's `httpTimeout` must be above.

Why in one place: the settings are refused by it, `netgang doctor` compares the running kube-scheduler with it, and the
client of the API server keeps to its part of it. A later answer has no effect: kube-scheduler has given
the pod up, and the Binding puts it where it is no longer wanted.
Rule: a call is held for the hold limit; its Binding has its turn within the commit timeout; and then takes as long as
the slowest one. All three can happen to one call.
"""

from typing import Final

COMMIT_TIMEOUT_S: Final = 15.0
"""How long a gang's Bindings may wait for their turn and for the API server before they are answered as failed."""
BINDING_MAX_S: Final = 6.0
"""Longest that one Binding takes, with its repetitions and the read that finds out its outcome."""
MARGIN_S: Final = 1.0
"""For the pod that the watch has not brought yet (half a second), the network, and an event loop that is busy."""


def longest_bind_s(*, hold_s: float, commit_s: float = COMMIT_TIMEOUT_S) -> float:
    """Seconds from a bind call to its answer, at most.

    >>> longest_bind_s(hold_s=25.0), longest_bind_s(hold_s=10.0, commit_s=5.0)
    (47.0, 21.0)
    """
    return hold_s + commit_s + min(BINDING_MAX_S, commit_s) + MARGIN_S  # the last Binding may begin at the last moment
