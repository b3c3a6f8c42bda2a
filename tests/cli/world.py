"""netgang in this process: what it prints for people and for machines, and how it refuses."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from cli.main import app
from tests.extender.scheduling.world import Object
from tests.fakes.raw_http import ok

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "snapshot/paper-testbed.json"
MESH = EXAMPLES / "mesh/paper-testbed.json"


def run(
    *arguments: object,
    env: Mapping[str, str] | None = None,
    given: str | bytes | None = None,
    program: str = "netgang",
    columns: int = 200,
) -> Result:
    """Run it; `given` is standard input."""
    usual = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    return CliRunner().invoke(
        app, [str(one) for one in arguments], env={**usual, **(env or {})}, input=given, prog_name=program
    )


def shown(*arguments: object, **how: Any) -> list[str]:
    """What is printed for people when all is well, blanks run together, without colours."""
    result = run(*arguments, **how)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert "\x1b" not in result.stdout
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def as_json(*arguments: object, **how: Any) -> Any:
    result = run(*arguments, "--json", **how)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: object, code: int = 2, **how: Any) -> str:
    """What is said when it is not: sentences on standard error, nothing on standard output, no traceback."""
    result = run(*arguments, **how)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def served(document: Any, *, status: int = 200) -> bytes:
    return ok(json.dumps(document).encode(), status=status)


def written(folder: Path, *items: Object) -> Path:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return path
