"""Settings of what gangs are given that lost members after they had started (docs/explanation/repair.md).

Rule: as for all settings, what is not understood is refused at start, in words that say what is accepted.
"""

from pydantic import Field

from extender.settings.types import NotNegative, Section
from scoring.model.policy import Repair, RestartLimits


class RepairSettings(Section):
    """Gangs that lost members after they had started (docs/explanation/repair.md)."""

    policy: Repair = Repair.REPLACE
    """For gangs without annotation `netgang.io/repair`. `replace`: successors go first in line, beside those that are
    left; `restart`: the whole gang is started anew through its owner's suspend and resume (needs
    manifests/components/restart); `none`: successors wait their turn."""
    settle_s: NotNegative = 10.0
    """`restart`: how long a gang must have been broken; a node may come back meanwhile."""
    restarts_per_hour: int = Field(default=3, ge=1, le=60)
    """`restart`: most restarts of one gang in an hour."""
    backoff_s: NotNegative = 60.0
    """`restart`: least time between the first and the second; it doubles with each further one of the hour."""

    def limits(self) -> RestartLimits:
        """The part about restarts, as it decides."""
        return RestartLimits(self.settle_s, self.restarts_per_hour, self.backoff_s)
