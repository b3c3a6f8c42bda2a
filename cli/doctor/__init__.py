"""`netgang doctor`: what is wrong with an installation, and what to change.

Why: most of what can go wrong here goes wrong in silence: a timeout that is too short, a Lease that is shared, a policy
without its binding. Rule: `facts` looks, and changes nothing; `checks` are plain functions from facts to findings,
which name the field or object, and its fix. What could not be seen is no finding: it is left out, and said.
"""

from cli.doctor.checks import Finding, Severity, examine
from cli.doctor.facts import Facts

__all__ = ["Facts", "Finding", "Severity", "examine"]
