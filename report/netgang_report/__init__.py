"""Report a training loop's progress to netgang: `report(step=100, loss=0.5)`; see docs/how-to/reporting.md.

Rule: training never waits and never fails: no call but `flush` waits, none raises, and without an address none does
anything. One short-lived thread at a time sends what has come together; what cannot be sent is dropped. The end of the
process waits for that thread, a second at most. The standard library alone, of Python 3.8 or newer.
"""

from netgang_report.reporter import DEFAULT, Reporter

__all__ = ["Reporter", "flush", "report"]

report = DEFAULT.report
flush = DEFAULT.flush
