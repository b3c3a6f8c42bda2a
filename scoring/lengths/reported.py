"""The length of a run that reports: what it has run, and the steps that are left at the speed that was measured.

Rule: saving and evaluation at the end have no steps, so a run may last as much longer as its reports are believed for
(`LATE_S`); that is in the highest quantile, and such a run does not count as one that outlives its length.
"""

from typing import Final

from scoring.lengths.length import MOST_S, Length, LengthSource

LATE_S: Final = 600.0
"""How much later than it said a job may end"""


def reported_length(ran_s: float, left_s: float) -> Length:
    """Of a run that has lasted `ran_s` and says that it still takes `left_s`; seconds, from 0 on.

    >>> reported_length(3000.0, 600.0).quantiles_s
    (3600.0, 3600.0, 3600.0, 3600.0, 4200.0)
    """
    ends_s = min(max(ran_s, 0.0) + max(left_s, 0.0), MOST_S)
    ends_s = max(ends_s, 1.0)
    return Length(LengthSource.REPORTED, (ends_s, ends_s, ends_s, ends_s, ends_s + LATE_S))
