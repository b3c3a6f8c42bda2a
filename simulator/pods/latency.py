"""How long things take in a simulated cluster: constants, or drawn within stated bounds under the run's seed.

Why one table: what a simulation assumes must be readable in one place and changed in one place. The defaults are those
of one machine with two cores that runs everything (docs/research/simulator-pods.md says where each number is from).
"""

import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Latency:
    """A duration: `mean_s`, or uniform within `mean_s` × (1 ± `spread_ratio`)."""

    mean_s: float
    spread_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.mean_s < 0.0 or not 0.0 <= self.spread_ratio <= 1.0:
            raise ValueError("a latency is not negative, and varies by at most its own mean")

    def draw(self, rng: random.Random) -> float:
        """Seconds of one occasion.

        >>> Latency(2.0).draw(random.Random(1))
        2.0
        >>> 1.0 <= Latency(2.0, 0.5).draw(random.Random(1)) <= 3.0
        True
        """
        if not self.spread_ratio:
            return self.mean_s
        return self.mean_s * (1.0 + self.spread_ratio * (2.0 * rng.random() - 1.0))


@dataclass(frozen=True, slots=True)
class Latencies:
    """All durations that the cluster around the service has; what the service computes takes no time."""

    write: Latency = field(default_factory=lambda: Latency(0.003))
    """One POST, PATCH or GET, from the call to its effect and answer."""
    page: Latency = field(default_factory=lambda: Latency(0.02))
    """One page of a list."""
    watch_s: float = 0.002
    """From a change to the moment at which watchers know of it."""
    cycle: Latency = field(default_factory=lambda: Latency(0.0008))
    """kube-scheduler's cycle for one pod, without nodes and extender."""
    node_s: float = 4e-7
    """And for each node that its filters look at."""
    verb: Latency = field(default_factory=lambda: Latency(0.0004))
    """One call of /filter or /prioritize, there and back."""
    name_s: float = 4e-8
    """And for each node name in it."""
    pod_create: Latency = field(default_factory=lambda: Latency(0.004))
    """A job's controller makes its pods one after the other."""
    pod_start: Latency = field(default_factory=lambda: Latency(1.0))
    """From the Binding to the running container."""
    pod_stop: Latency = field(default_factory=lambda: Latency(1.0))
    """From the request to delete a running pod to its end."""
