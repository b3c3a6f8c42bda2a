"""How much of the nodes is requested, over time."""

from collections import Counter

from scoring.ids import ResourceName
from scoring.model.resources import PODS, Resources


class Meter:
    """Integrals of what pods on nodes request; times are the loop's. Cost of each change: O(resources)."""

    def __init__(self) -> None:
        self._held: dict[str, Resources] = {}
        """uid of a pod on a node → its requests"""
        self._now: Counter[ResourceName] = Counter()
        self._sum: Counter[ResourceName] = Counter()
        self._since_s = 0.0

    def take(self, uid: str, amounts: Resources, *, now_s: float) -> None:
        """A pod is on a node."""
        self._advance(now_s)
        self._held[uid] = amounts
        self._now.update(dict(amounts))

    def give(self, uid: str, *, now_s: float) -> None:
        """The pod is gone or has ended; nothing, for one that was on no node."""
        self._advance(now_s)
        self._now.subtract(dict(self._held.pop(uid, Resources())))

    def ratios(self, capacity: Resources, *, from_s: float, to_s: float) -> dict[str, float]:
        """Share of each resource of `capacity` that was requested, mean between two moments; nothing was before."""
        self._advance(to_s)
        span_s = to_s - from_s
        wanted = [(name, most) for name, most in capacity if name != PODS]
        return {str(name): self._sum[name] / (most * span_s) if span_s > 0.0 else 0.0 for name, most in wanted}

    def _advance(self, now_s: float) -> None:
        past_s = now_s - self._since_s
        self._since_s = now_s
        if past_s > 0.0:
            for name, amount in self._now.items():
                self._sum[name] += amount * past_s  # type: ignore[assignment]
