"""The length of each gang, as it is put on the gang's record when that is built (`scoring.queue.gang_length`).

Rule: off, no gang has a length. Former runs and reports come from controllers (`extender.controllers.lengths`); what
users declare on pods is in the gang's own record, and what they declare on its job was read with the owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scoring.ids import GangKey
from scoring.lengths.former_runs import FormerRuns
from scoring.lengths.length import Length
from scoring.model import Gang
from scoring.queue.gang_length import length_of


@dataclass(frozen=True, slots=True)
class JobSays:
    """What a gang's job itself says of its length."""

    expected: str = ""  # Annotation `netgang.io/expected-duration`, bounded; empty: it has none
    limit_s: float | None = None  # `activeDeadlineSeconds` of the job


@dataclass(slots=True)
class GangLengths:
    """What lengths are known from."""

    enabled: bool = False
    former: FormerRuns = field(default_factory=FormerRuns)
    reported: Mapping[GangKey, Length] = field(default_factory=dict)  # Gang that runs → what its reports say

    def of(self, gang: Gang, job: JobSays | None) -> Length | None:
        """The gang's length; `None`: not known. Cost: O(members)."""
        if not self.enabled or not gang.own:
            return None
        limit_s = job.limit_s if job is not None else None
        return length_of(gang, self.former, reported=self.reported.get(gang.key), owner_limit_s=limit_s)
