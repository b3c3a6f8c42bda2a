"""/openapi.json from the schemas: FastAPI knows pydantic's models only, so the components are added to what it writes.

Rule: a component is named as its record, and a field is described by the text beside or below it.
"""

import ast
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import zip_longest
from typing import Annotated, Any, Final, TypeAlias, get_args, get_type_hints

import msgspec
from fastapi import FastAPI, Path, Query

from extender.api.problems import PROBLEM_TYPE
from extender.schemas import Problem

Responses = dict[int | str, dict[str, Any]]  # status → what OpenAPI says of it, as FastAPI takes it
Name: TypeAlias = Annotated[str, Path(min_length=1, max_length=253, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
GangName: TypeAlias = Annotated[str, Path(min_length=1, max_length=253)]  # A label's or an annotation's value
Kind: TypeAlias = Annotated[
    str | None, Query(max_length=100, description="Kind, such as TFJob, where several jobs have one name")
]

_PLACE: Final = "#/components/schemas/"
_NAMED: Final[dict[str, type[msgspec.Struct]]] = {}  # name → the record that some route answers with or takes


def answers(kind: type[msgspec.Struct], problems: Mapping[int, str] | None = None) -> Responses:
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
        written = json.dumps(document)
        named = [kind for name, kind in _NAMED.items() if f'"{_PLACE}{name}"' in written]
        _, schemas = msgspec.json.schema_components(named, ref_template=_PLACE + "{name}")
        for kind in _records(*named):
            names = dict(zip(*(getattr(kind, f"__struct_{of}fields__", ()) for of in ("", "encode_")), strict=True))
            fields = schemas[kind.__name__]["properties"]
            for name, text in texts_of_fields(kind):
                if (field := names.get(name, name)) in fields:
                    fields[field]["description"] = text
        before = document.setdefault("components", {}).setdefault("schemas", {})
        document["components"]["schemas"] = dict(sorted({**before, **schemas}.items()))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _named(kind: type[msgspec.Struct]) -> dict[str, str]:
    _NAMED[kind.__name__] = kind
    return {"$ref": f"{_PLACE}{kind.__name__}"}


def _records(*kinds: Any) -> Iterator[type]:
    """Those of `kinds` that are JSON objects of named fields, and those that their fields are made of."""
    for kind in kinds:
        own = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        if own:
            yield kind
        yield from _records(*(get_type_hints(kind).values() if own else get_args(kind)))


def texts_of_fields(kind: type) -> Iterator[tuple[str, str]]:
    """(field or member, text beside or below it in the source) of a record or enumeration and of what it extends."""
    for base in reversed([cls for cls in kind.__mro__ if cls.__module__.startswith(("extender.", "scoring."))]):
        source = inspect.getsource(base)
        lines, [written] = source.splitlines(), ast.parse(source).body
        assert isinstance(written, ast.ClassDef)
        for field, below in zip_longest(written.body, written.body[1:]):
            if not isinstance(field, ast.AnnAssign | ast.Assign):
                continue
            match field.target if isinstance(field, ast.AnnAssign) else field.targets[0], below:
                case ast.Name(name), ast.Expr(ast.Constant(str(text))):
                    yield name, inspect.cleandoc(text)
                case ast.Name(name), _:
                    if text := lines[(field.end_lineno or 0) - 1].partition("  # ")[2]:
                        yield name, text
                case _:
                    pass
