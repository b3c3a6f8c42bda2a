"""`netgang doctor`: what is wrong with an installation, and what to change.

Why: most of what can go wrong here goes wrong in silence: a timeout that is too short, a Lease that is shared, a policy
without its binding. Rule: `looking` and `asking` look, and change nothing; what they saw is `facts`; checks say what
follows from it, as plain functions from values to findings; `examine` puts them together. A finding names the field or
object, and its fix. What could not be seen is no finding: it is left out, and said.
"""

from cli.doctor.examine import examine
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, Severity

__all__ = ["Facts", "Finding", "Severity", "examine"]
