"""How large netgang is: every row of `sizes.toml`, measured in the tree. The numbers there only fall.

Why: version 0.1 grew line by line, to more than a few people can maintain. Whoever adds a line where a row is at its
number removes one in the same change. Rule: a test fails when a row is above its number or more than 2 % below it; then
the number is lowered in the same change (`python -m lab.bench.sizes --write`).

    python -m lab.bench.sizes             the table
    python -m lab.bench.sizes --write     lower the numbers of sizes.toml to what is measured; none is raised
"""

import argparse
import ast
import re
import signal
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from inspect import get_annotations
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import msgspec
from msgspec import Struct

ROOT = Path(__file__).parents[2]
FILE = ROOT / "sizes.toml"
PRODUCT = ("extender", "scoring", "cli", "client", "probe", "report")
LAB = ("bench", "papers", "simulator", "testbed")
PAGES = ("README.md", "docs", "examples")
INSTALL = ("manifests", "charts", "scheduler-config")
SLACK = 0.02
"""A row may be below its number by this share, so that not each change of a line changes sizes.toml."""
SHORT_LINES, LONG_LINES = 60, 450
"""A module is to have so many lines at least and at most."""


class Row(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    measured: int
    limit: int | None

    @property
    def problem(self) -> str | None:
        """Why the ratchet fails; `None`: it holds.

        >>> Row("a", 99, 100).problem, Row("a", 101, 100).problem
        (None, 'a: 101, at most 100: take something away in the same change')
        >>> Row("a", 97, 100).problem
        'a: 97, more than 2 % below 100: python -m lab.bench.sizes --write'
        """
        if self.limit is None:
            return f"{self.name}: {self.measured}, and no number in sizes.toml"
        if self.measured > self.limit:
            return f"{self.name}: {self.measured}, at most {self.limit}: take something away in the same change"
        if self.measured < self.limit * (1 - SLACK):
            return f"{self.name}: {self.measured}, more than 2 % below {self.limit}: python -m lab.bench.sizes --write"
        return None


def table() -> list[Row]:
    """Every row, in the order of `measure`, with its number."""
    limits = tomllib.loads(FILE.read_text())["at_most"] if FILE.exists() else {}
    return [Row(name, measured, limits.get(name)) for name, measured in measure().items()]


def measure() -> Mapping[str, int]:
    """All sizes of the tree. Reads each Python file once; needs the tree to be a checkout of git."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]
    texts = {path: (ROOT / path).read_text(errors="replace") for path in tracked}
    python = {path: text for path, text in texts.items() if path.endswith(".py")}
    product = {path: text for path, text in python.items() if _is_below(path, PRODUCT)}
    lengths = [text.count("\n") for path, text in product.items() if not path.endswith(("__init__.py", "__main__.py"))]
    pages = [text for path, text in texts.items() if path.endswith(".md") and _is_below(path, PAGES)]
    nodes = (node for text in product.values() for node in ast.walk(ast.parse(text)))
    classes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))

    def lines(kinds: Mapping[str, str], *folders: str) -> int:
        return sum(text.count("\n") for path, text in kinds.items() if _is_below(path, folders))

    return {
        "product_lines": lines(python, *PRODUCT),
        **{f"{one}_lines": lines(python, one) for one in PRODUCT},
        "tests_lines": lines(python, "tests"),
        "lab_lines": lines(python, "lab"),
        **{f"lab_{one}_lines": lines(python, f"lab/{one}") for one in LAB},
        "install_lines": lines(texts, *INSTALL),
        "words": sum(len(text.split()) for text in pages),
        "pages": len(pages),
        "product_files": len(product),
        "product_files_below_60_lines": sum(count < SHORT_LINES for count in lengths),
        "product_files_above_450_lines": sum(count > LONG_LINES for count in lengths),
        "class_names_twice": sum(count > 1 for count in classes.values()),
        "settings": _settings(),
        "rbac_rules": sum(text.count("verbs:") for path, text in texts.items() if _is_below(path, ("charts",))),
        "components": texts["charts/netgang/values.yaml"].count("enabled:"),
        **_vocabulary("\n".join(product.values())),
    }


_WORD: Final = re.compile(r"(?<![\w./])netgang\.io/[a-z-]+")


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _settings() -> int:
    """Values that a settings file may hold: leaves of the records; those that several sources inherit count once."""
    from extender.settings.settings import Settings
    from scoring.model.policy import Ratios, Ttl

    counted: set[tuple[type[Struct], str]] = set()
    left: list[type[Struct]] = [Settings]
    while left:
        record = left.pop()
        for name, kind in get_type_hints(record).items():
            if name in record.__struct_fields__ and name not in getattr(record, "fixed", ()):
                below = [one for one in _records(kind) if one not in (Ratios, Ttl)]  # each is a value, as people see it
                left += below
                if kind not in below and name != "kind":  # which source it is, is no setting
                    counted.add((next(one for one in record.__mro__ if name in get_annotations(one)), name))
    return len(counted)


def _records(annotation: Any) -> list[type[Struct]]:
    """The records that an annotation names, at any depth."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return [annotation]
    return [one for inner in get_args(annotation) for one in _records(inner)]


def _command_line() -> Mapping[str, int]:
    from typer.main import get_command

    from cli.main import app

    commands, left = [], [get_command(app)]
    while left:
        one = left.pop()
        inner = getattr(one, "commands", None)
        left += inner.values() if inner else []
        commands += [] if inner else [one]
    options = [param for one in commands for param in one.params if param.param_type_name == "option"]
    return {"commands": len(commands), "options": len(options)}


def _vocabulary(code: str) -> Mapping[str, int]:
    from extender.controllers.recorder import Happening
    from extender.runtime.telemetry import Telemetry
    from scoring.model.policy import KNOWN_OPTIONS
    from scoring.model.reasons import CauseReason, Reason

    words = {*_WORD.findall(code), *(f"netgang.io/{name}" for name in KNOWN_OPTIONS)}
    metrics = [one for one in Telemetry().registry.collect() if not one.name.startswith("process_")]
    return {
        "annotations_and_labels": len(words),
        **_command_line(),
        "metrics": len(metrics),
        "events": len(Happening),
        "reasons_and_causes": len(Reason) + len(CauseReason),
    }


def write(rows: Sequence[Row]) -> None:
    """Lower each number to what is measured; a row without one gets it. A row above its number is refused."""
    if above := [row for row in rows if row.limit is not None and row.measured > row.limit]:
        raise SystemExit("\n".join(str(row.problem) for row in above))
    head = "# What netgang may measure at most (lab/bench/sizes.py). The numbers only fall.\n[at_most]\n"
    FILE.write_text(head + "".join(f"{row.name} = {row.measured}\n" for row in rows))


def main() -> None:
    """Print the table, or lower its numbers."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.sizes", description="How large netgang is")
    parser.add_argument("--write", action="store_true", help="lower the numbers of sizes.toml to what is measured")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # It ends where nobody reads on, without a word
    (write if parser.parse_args().write else show)(table())


def show(rows: Iterable[Row]) -> None:
    """Print a line for each row."""
    print(f"{'size':32}{'measured':>9}{'at most':>9}")
    for row in rows:
        print(f"{row.name:32}{row.measured:>9}{row.limit if row.limit is not None else '-':>9}")


if __name__ == "__main__":
    main()
