"""netgang in this process: what it prints for people and for machines, and how it refuses."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import respx
from typer.testing import CliRunner, Result

from cli.main import app
from extender.api.problems import problem_response
from tests.extender.scheduling.world import Object

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "snapshot/paper-testbed.json"
MESH = EXAMPLES / "mesh/paper-testbed.json"
URL = "http://netgang"
Told: TypeAlias = Mapping[str, Any] | Callable[[httpx.Request], httpx.Response]


def run(
    *arguments: object,
    told: Told | None = None,
    env: Mapping[str, str] | None = None,
    given: str | bytes | None = None,
    program: str = "netgang",
    columns: int = 200,
) -> Result:
    """Run it; `told`: what a netgang answers, path → document or response; `given` is standard input."""
    asked = [str(one) for one in arguments] + ([] if told is None else ["--url", URL])
    env = {"COLUMNS": str(columns), "NO_COLOR": "1", **(env or {})}
    if told is None:
        return CliRunner().invoke(app, asked, env=env, input=given, prog_name=program)
    with respx.mock(base_url=URL, assert_all_called=False) as router:
        if callable(told):
            router.route().mock(side_effect=told)
        else:
            for path, answer in told.items():
                router.get(path).mock(
                    answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)
                )
        return CliRunner().invoke(app, asked, env=env, input=given, prog_name=program)


def problem(status: HTTPStatus, detail: str) -> httpx.Response:
    return httpx.Response(status, content=bytes(problem_response(status, detail).body))


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


def written(folder: Path, *items: Object) -> Path:
    path = folder / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": items}))
    return path
