"""Which sections of which records the pages show: the newest of each benchmark, and of each load all ways once.

Why apart: the tables and the comparison show the same runs. Rule: runs on another Kubernetes than the test bed's are a
load of their own; which one it was, the section's command says.
"""

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from lab.bench.peers.figures import Figures
from lab.bench.peers.workloads import WORKLOADS
from lab.bench.record import Record, Section

_KUBERNETES = re.compile(r"--kubernetes (\S+)")
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Source:
    """A section and the record that it is from."""

    record: Record
    section: Section

    @property
    def kubernetes(self) -> str:
        """Version of Kubernetes, if its command names one; else it is that of the record."""
        found = _KUBERNETES.search(self.section.command)
        return found[1] if found else ""

    def words(self, before: str = "") -> str:
        """Where its figures come from, as lines of the page."""
        text = f"{before}`{self.section.command}`, {self.record.date}, commit {self.record.commit}."
        return wrapped(f"{text} {self.record.remark}".strip())


def newest(records: Iterable[Record], bench: str) -> Source | None:
    """The last section of a benchmark; records come in the order of their dates."""
    found = None
    for record in records:
        for section in record.sections:
            if section.bench == bench and section.lines:
                found = Source(record, section)
    return found


def by_load(records: Iterable[Record]) -> dict[str, list[Source]]:
    """Load → the sections to show of it, the newest first: an older one as long as it alone has some way.

    Runs on another Kubernetes are a load of their own. Records come in the order of their dates; loads in the order of
    their table.
    """
    found: dict[str, list[Source]] = {}
    seen: dict[str, set[str]] = {}
    for record in reversed(list(records)):
        for source in [Source(record, section) for section in record.sections]:
            for name in dict.fromkeys(str(row["workload"]) for row in rows_of(source.section)):
                load = f"{name} on {source.kubernetes}" if source.kubernetes else name
                ways = {str(row["way"]) for row in rows_of(source.section, name)}
                if ways - seen.setdefault(load, set()):
                    found.setdefault(load, []).append(source)
                seen[load] |= ways
    order = list(WORKLOADS)
    return {load: found[load] for load in sorted(found, key=lambda load: (order.index(bare(load)), load))}


def bare(load: str) -> str:
    """A load without the version of Kubernetes.

    >>> bare("gangs on 1.37.2"), bare("gangs")
    ('gangs', 'gangs')
    """
    return load.partition(" on ")[0]


def rows_of(section: Section, load: str | None = None) -> list[Figures]:
    """The lines of a comparison that are of ways, not goals; of one load or of all."""
    lines = section.lines if section.bench == "peers" else ()
    return [dict(line) for line in lines if "bound" not in line and load in (None, line["workload"])]


def goals_of(section: Section, load: str) -> list[Figures]:
    """The lines of a comparison that are of one load's goals."""
    return [dict(line) for line in section.lines if "bound" in line and line["workload"] == load]


def versions_of(record: Record) -> dict[str, str]:
    """Those of a record; of Kubernetes the one that its commands name, if they do."""
    named = sorted({Source(record, section).kubernetes for section in record.sections} - {""})
    return {**record.versions, **({"kube-scheduler": ", ".join(named)} if named else {})}


def wrapped(text: str) -> str:
    """A text in lines that fit the pages."""
    return "\n".join(textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
