"""The record of benchmark runs: what was measured, by which command, when, where and of which commit, as JSON.

Why: a figure without its command and machine cannot be repeated or compared. Rule: every figure on the page of results
is read from such a record; a record is written once and never edited.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from extender.runtime.clock import SystemClock
from lab.testbed.programs.catalogue import PROGRAMS

FORMAT = 1
ROOT = Path(__file__).parents[2]
_PACKAGES = ("netgang", "numpy", "msgspec", "uvloop", "uvicorn", "aiohttp")


@dataclass(frozen=True, slots=True)
class Section:
    """What one benchmark said: its JSON lines, and whether it ended with status 0."""

    bench: str
    command: str
    lines: tuple[Mapping[str, Any], ...]
    seconds: float | None = None
    ok: bool = True


@dataclass(frozen=True, slots=True)
class Record:
    """Sections of one day on one machine."""

    date: str
    commit: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    sections: tuple[Section, ...]
    remark: str = ""

    def to_json(self) -> str:
        """The text of its file: one line of a section is one line of the file."""
        head = {key: value for key, value in asdict(self).items() if key != "sections"}
        text = json.dumps({"format": FORMAT, **head, "sections": []}, indent=1, ensure_ascii=False)
        return text.replace('"sections": []', f'"sections": [{",".join(map(_section, self.sections))}\n ]') + "\n"


def _section(section: Section) -> str:
    head = {"bench": section.bench, "command": section.command, "seconds": section.seconds, "ok": section.ok}
    lines = ",".join("\n   " + json.dumps(line, ensure_ascii=False) for line in section.lines)
    return "\n  " + json.dumps(head, ensure_ascii=False)[:-1] + f', "lines": [{lines}\n  ]}}'


def read(path: Path) -> Record:
    """A record from its file. ValueError if it is none, or of another format."""
    try:
        content = json.loads(path.read_text())
        if content["format"] != FORMAT:
            raise ValueError(f"{path} has format {content['format']}, expected {FORMAT}")
        sections = tuple(Section(**{**one, "lines": tuple(one["lines"])}) for one in content["sections"])
        return Record(
            content["date"], content["commit"], content["machine"], content["versions"], sections, content["remark"]
        )
    except (KeyError, TypeError, json.JSONDecodeError) as wrong:
        raise ValueError(f"{path} is no record of benchmarks: {wrong!r}") from wrong


def write(path: Path, record: Record) -> None:
    """Write the record's file, and its directory if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(record.to_json())


def here(sections: Iterable[Section], *, remark: str = "") -> Record:
    """A record of these sections, measured now on this machine."""
    now = datetime.fromtimestamp(SystemClock().now_s(), UTC)
    return Record(now.strftime("%Y-%m-%d %H:%M UTC"), commit(), machine(), versions(), tuple(sections), remark)


def commit() -> str:
    """The commit that is checked out, with `+` if files differ from it; `unknown` outside a repository."""
    found = _output(["git", "rev-parse", "--short=10", "HEAD"])
    changed = _output(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{found}{'+' if changed else ''}" if found else "unknown"


def machine() -> dict[str, Any]:
    """Cores, processor, memory and kernel."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(memory_bytes / 2**30),
        "kernel": platform.release(),
    }


def versions() -> dict[str, str]:
    """Python, Go if it is there, the packages that matter for speed, and the programs of the test bed."""
    found = {"python": platform.python_version()}
    go = _output(["go", "version"]).split()
    if len(go) > 2:
        found["go"] = go[2].removeprefix("go")
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | {name: str(PROGRAMS[name].default_version) for name in ("kube-scheduler", "etcd")}


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _output(command: Sequence[str]) -> str:
    """What a command prints; nothing if it cannot be run."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
