"""/openapi.json from the schemas: FastAPI knows pydantic's models only, so the components are added to what it writes.

Rule: a component is named as its record, and a field is described by the text beside or below it.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from fastapi import FastAPI, Path, Query

from extender.api.problems import PROBLEM_TYPE
from extender.schemas import explain, jobs, link, network, plan, probe, queue, readiness, what_if
from extender.schemas.record import Problem, Record
from scoring.what_if import PodSet, WhatIf

_Kind = TypeVar("_Kind", bound=msgspec.Struct)
Responses = dict[int | str, dict[str, Any]]  # status → what OpenAPI says of it, as FastAPI takes it
Name: TypeAlias = Annotated[str, Path(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
Kind: TypeAlias = Annotated[
    str | None, Query(max_length=100, description="Kind, such as TFJob, where several jobs have one name")
]

_DOCUMENTS: Final = (
    *(jobs.Accepted, explain.Explained, jobs.JobInFull, jobs.Jobs, link.Link, network.Network, plan.PlanInForce),
    *(
        probe.ProbeOrders,
        probe.ProbeReport,
        Problem,
        queue.Queue,
        readiness.Readiness,
        what_if.Supposed,
        WhatIf,
    ),
)
_PLACE: Final = "#/components/schemas/"


def answers(kind: type[Record], problems: Mapping[int, str] | None = None) -> Responses:
    """The answer to a good request, and problem documents: status → when."""
    good = {"description": "Successful Response", "content": {"application/json": {"schema": _named(kind)}}}
    return {200: good, **{status: problem(text) for status, text in (problems or {}).items()}}


def problem(text: str) -> dict[str, Any]:
    """A problem document; `text` says when."""
    return {"description": text, "content": {PROBLEM_TYPE: {"schema": _named(Problem)}}}


def takes(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The body of a request, as FastAPI takes it beside a route that reads it itself."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": _named(kind)}}}}


def with_schemas(app: FastAPI) -> FastAPI:
    """The same app, whose OpenAPI document has the schemas."""
    without: Callable[[], dict[str, Any]] = app.openapi

    def openapi() -> dict[str, Any]:
        document = without()
        known = document.setdefault("components", {}).setdefault("schemas", {})
        document["components"]["schemas"] = dict(sorted({**known, **_components()}.items()))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _named(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"{_PLACE}{kind.__name__}"}


def _components() -> dict[str, Any]:
    _, found = msgspec.json.schema_components(_DOCUMENTS, ref_template=_PLACE + "{name}")
    kinds: list[type[msgspec.Struct]] = [*_kinds(Record), WhatIf, PodSet]
    for kind in kinds:
        fields = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        for name, text in _texts(kind):
            if kind.__name__ in found and name in fields:
                found[kind.__name__]["properties"][fields[name]]["description"] = text
    return found


def _kinds(kind: type[_Kind]) -> Iterator[type[_Kind]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)


def _texts(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """(field, text beside or below it), also of the record that it extends."""
    for base in reversed(kind.__mro__[: kind.__mro__.index(msgspec.Struct)]):
        source = inspect.getsource(base)
        lines, [written] = source.splitlines(), ast.parse(source).body
        assert isinstance(written, ast.ClassDef)
        for field, below in zip_longest(written.body, written.body[1:]):
            match field, below:
                case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(said))):
                    yield name, inspect.cleandoc(said)
                case ast.AnnAssign(target=ast.Name(name), end_lineno=int(end)), _:
                    if said := lines[end - 1].partition("  # ")[2]:
                        yield name, said
                case _:
                    pass
