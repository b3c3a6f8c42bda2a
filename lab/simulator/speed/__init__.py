"""How fast a job trains where it is, what a change of its workers costs, and how its loss falls.

Why apart from the engine: each part is a formula with a source or a stated assumption, and can be looked at alone.
Rule: pure functions of the placement, the links and the table of models; no clock, no chance.
"""

from lab.simulator.speed.rate import Crowd, Placement, Speed, speed_of
from lab.simulator.speed.stall import repeated_samples, resize_stall_s
from lab.simulator.speed.table import PROFILES, Profile, profile_of
from lab.simulator.speed.traffic import Wires

__all__ = [
    "PROFILES",
    "Crowd",
    "Placement",
    "Profile",
    "Speed",
    "Wires",
    "profile_of",
    "repeated_samples",
    "resize_stall_s",
    "speed_of",
]
