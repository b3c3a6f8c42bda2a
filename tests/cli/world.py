"""netgang in this process: what it prints for people and for machines, how it refuses, and what a netgang answers."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import msgspec
from typer.testing import CliRunner, Result

from cli.main import app
from cli.offline import filled_cache
from extender.api.problems import problem_response
from extender.api.what_if import read_what_if, supposed
from extender.bootstrap import empty_cache
from extender.settings.settings import Settings
from scoring.explain.gang import explain
from scoring.model.gang import gang_key
from scoring.plan import PlannerCache, plan
from scoring.what_if import MisfitError, Situation
from tests.extender.scheduling.world import Object
from tests.fakes.raw_http import RawServer, ok

EXAMPLES = Path(__file__).parents[2] / "examples"
CLUSTER = EXAMPLES / "snapshot/paper-testbed.json"
MESH = EXAMPLES / "mesh/paper-testbed.json"
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
    asked = [str(one) for one in arguments]
    env = {"COLUMNS": str(columns), "NO_COLOR": "1", **(env or {})}
    if told is None:
        return CliRunner().invoke(app, asked, env=env, input=given, prog_name=program)
    with _Answering(told) as netgang:
        return CliRunner().invoke(app, [*asked, "--url", netgang.url], env=env, input=given, prog_name=program)


class _Answering(RawServer):
    def __init__(self, told: Told) -> None:
        super().__init__({})
        self.told = told

    def answer_to(self, path: str) -> bytes:
        if callable(self.told):
            said = self.told(httpx.Request(self.requests[-1].split(" ")[0], self.url + path, content=self.body))
        else:
            said = self.told[path if path in self.told else path.partition("?")[0]]
        response = said if isinstance(said, httpx.Response) else httpx.Response(200, json=said)
        return ok(response.content, status=response.status_code)


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


NOW_S = 1_793_613_900.0  # 2026-11-02T10:05:00Z, five minutes after the jobs of the example came


class Saved:
    """A netgang that answers of a saved cluster at one moment: /v1/explain and /v1/what-if, by the service's code."""

    def __init__(
        self, cluster: Path = CLUSTER, mesh: Path | None = MESH, *, now_s: float = NOW_S, **settings: Any
    ) -> None:
        self.settings, self.now_s, self.known = Settings().changed(settings), now_s, PlannerCache()
        self.cache = filled_cache(cluster, mesh, self.settings, now_s=now_s)
        self.base = Situation(self.cache.snapshot(), self.settings.policy(), now_s)
        self.plan = plan(self.base.snapshot, self.base.policy, now_s=now_s, cache=self.known)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        try:
            found = self._answer(request)
        except MisfitError as error:
            return problem(HTTPStatus.BAD_REQUEST, str(error))
        if found is None:
            return problem(HTTPStatus.NOT_FOUND, "no such gang is known")
        return httpx.Response(200, content=msgspec.json.encode(found))

    def _answer(self, request: httpx.Request) -> msgspec.Struct | None:
        if request.method == "POST":
            what, empty = read_what_if(request.content), partial(empty_cache, self.settings)
            return supposed(self.base, self.plan, what, self.settings, empty)
        namespace, name = request.url.path.split("/")[3:]
        pod = self.cache.pod_by_name(namespace, name)
        gang = self.cache.gang(gang_key(namespace, name)) or (self.cache.gang_of(pod.uid) if pod is not None else None)
        if gang is None:
            return None
        return explain(self.base.snapshot, self.plan, gang, self.base.policy, now_s=self.now_s, cache=self.known)
