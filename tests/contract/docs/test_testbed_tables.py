"""The tables of docs/research/testbed.md are those that its own commands print from the records."""

import re
from pathlib import Path

import pytest

from lab.bench.testbed.__main__ import main

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/research/testbed.md"
COMMANDS = tuple(
    re.findall(r"^\.venv/bin/python -m lab.bench\.testbed table --json \S+$", PAGE.read_text(), re.MULTILINE)
)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_table_is_what_its_command_prints(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    *_, path = line.split()
    main(["table", "--json", str(ROOT / path)])
    rows = [row for row in capsys.readouterr().out.splitlines() if row.startswith("| ")]
    assert len(rows) >= 2
    assert [row for row in rows if row not in PAGE.read_text()] == []
