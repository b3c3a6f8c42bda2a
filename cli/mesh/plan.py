"""What is tested how often, and whether that can be done.

Why: a throughput test has its two hosts for itself, so a mesh can ask for more tests than there is time. Rule: times
are whole seconds; what cannot be scheduled is said in a sentence before it is installed, and never changed.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from cli.mesh.mesh import Kind, Site
from extender.errors import ConfigError

SAMPLE_S: Final = 60
_SETUP_S: Final = 10  # Between two throughput tests of one host: pScheduler's set-up and clean-up
_CHECKS_PER_S: Final = 12  # MaDDash starts at most 250 checks every 20 s


class LatencyTest(StrEnum):
    """How loss and delay are measured."""

    LATENCYBG = "latencybg"  # One way, all the time (powstream); needs synchronised clocks
    LATENCY = "latency"  # One way, a minute at a time (owping); needs synchronised clocks
    RTT = "rtt"  # Round trip (ping); needs no clocks. netgang takes half of it.


@dataclass(frozen=True, slots=True)
class MeshPlan:
    """The tests of a mesh; times in seconds."""

    name: str = "netgang"  # Name of the template, of the dashboard, and in front of every grid
    latency: LatencyTest = LatencyTest.LATENCYBG
    latency_interval_s: int = 60
    throughput_interval_s: int = 14_400
    throughput_duration_s: int = 20
    bucket_width_ms: float = 1.0

    def __post_init__(self) -> None:
        if not self.name.strip() or any(char in self.name for char in "/%+") or not self.name.isprintable():
            raise ConfigError(
                f"name {self.name!r}: must not be empty nor have any of / % +, which proxies garble in URLs"
            )
        least_s = SAMPLE_S if self.latency is LatencyTest.LATENCYBG else 2 * SAMPLE_S
        if self.latency_interval_s < least_s:
            raise ConfigError(f"latency interval: {self.latency} needs at least {least_s} s")
        if self.throughput_interval_s < self.throughput_duration_s + _SETUP_S:
            raise ConfigError("throughput interval: is shorter than one test")


def round_notes(site: Site, plan: MeshPlan) -> tuple[str, ...]:
    """Say which hosts have more throughput tests than fit into one interval; each test keeps both its hosts busy."""
    mesh = site.meshes[Kind.THROUGHPUT]
    slot_s = plan.throughput_duration_s + _SETUP_S
    needs = {end.key: slot_s * mesh.directions(zone, end) for zone, ends in mesh.zones.items() for end in ends}
    over = sorted(key for key, need_s in needs.items() if need_s > plan.throughput_interval_s)
    if not over:
        return ()
    worst = min(over, key=lambda key: (-needs[key], key))
    return (
        f"throughput tests do not fit into {plan.throughput_interval_s} s on {len(over)} of {len(needs)} hosts; "
        f"{worst} needs {needs[worst]} s for one round",
    )


def check_notes(site: Site, *, interval_s: int, per_pair: int = 2) -> tuple[str, ...]:
    """Say if MaDDash cannot run the latency checks in time: `per_pair` for each direction every `interval_s`."""
    checks = per_pair * site.meshes[Kind.LATENCY].pairs
    if checks <= _CHECKS_PER_S * interval_s:
        return ()
    return (f"MaDDash runs about {_CHECKS_PER_S} checks a second: {checks} checks do not fit into {interval_s} s",)


def archive_base(url: str) -> str:
    """The archive's scheme and host. Errors: ConfigError.

    >>> archive_base("https://archive.example.org/")
    'https://archive.example.org'
    """
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc or " " in url:
        raise ConfigError(f"archive {url!r}: must be the archive's host, such as https://archive.example.org")
    return f"{parts.scheme}://{parts.netloc}"
