"""Pages of the API: every address, what it takes and gives, from the service itself as it runs the demonstration."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from extender.api.problems import PROBES
from extender.api.reports import AgentPods, ProbePort, create_reports_app
from extender.controllers.elastic import reports as report_body
from extender.controllers.elastic.reports import Reports
from extender.convert.wire import MAX_SCORE
from extender.network.probe_agents import Agents
from extender.settings.settings import Settings
from tests.contract.docs.demonstration import served
from tests.contract.reference.text import code, first_paragraph, json_block, table
from tests.contract.test_wire_goldens import FIXTURES as WIRE

_API = """# API

All addresses, from the service's OpenAPI document (`/openapi.json`, `/docs`). Documents are JSON and change nothing.
Except for the verbs, errors are problem documents (RFC 9457: `application/problem+json` with `title`, `status`,
`detail`): 400 names the field of a wrong parameter, 503 is an error of netgang's own. What addresses take is in
[bodies](api-bodies.md), what they give in [answers](api-documents.md).
"""
_DOORS = """
## Ports

{table}
What is at no port answers 404. With `tls.cert_file` all ports but that of `health_port` speak TLS.
"""
_THE_VERBS = """
## The verbs

kube-scheduler's own types (`k8s.io/kube-scheduler/extender/v1`): keys are Go's field names. All answer 200; mistakes
are in `Error`. Either `NodeNames` (with `nodeCacheCapable: true`, as in scheduler-config) or `Nodes` is set. What the
answers mean: [the extender](extender.md#verbs).
"""
_EXAMPLES = (  # what stands above it, recorded request or reply (tests/contract/test_wire_goldens.py)
    ("`POST /filter` and `POST /prioritize` take (ExtenderArgs):", "args-names.request"),
    ("`/filter` answers (ExtenderFilterResult) with the planned node,", "filter-one-of-three.reply"),
    ("or with one constant [reason](reasons.md) for every node,", "filter-none.reply"),
    ("or, where it cannot decide, with an error; kube-scheduler then tries again by itself:", "filter-error.reply"),
    (f"`/prioritize` answers (HostPriorityList) 0 to {MAX_SCORE} for every node asked:", "prioritize-names.reply"),
    ("`POST /bind` takes (ExtenderBindingArgs)", "binding.request"),
    ("and answers (ExtenderBindingResult) an empty `Error` once it is bound, else why not:", "bind-refused.reply"),
)
_SECRET = "pods, for jobs of their namespace, by their service account's token; agents"
_BODIES = """# API bodies

What [the API](api.md) takes: changes to suppose, and reports. A field that is not here is refused, with its name.

"""
_REPORT = f"""
## A report

One point, a list of {report_body.MOST_POINTS} at most, or `{{"points": […], "restarted": true}}`;
see [reporting](../how-to/elastic-and-reports.md). `step` and `loss` are needed:

"""
_ANSWERS = """# API answers

What [the API](api.md) gives. Each has one schema (`extender/schemas.py`), which the service, the command line and this
page share. Documents of [the page](../how-to/operate.md#the-page) change with it.

"""
_FEW = 3  # fields with a text that are said in one line
_LIMITS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
_VERBS_TYPES = {"ExtenderArgs", "ExtenderFilterResult", "HostPriority", "ExtenderBindingArgs", "ExtenderBindingResult"}
_NAMED = re.compile("#/components/schemas/([A-Za-z]+)")


@cache
def reports_openapi() -> dict[str, Any]:
    """The OpenAPI document of the port for reports, which it does not serve."""
    unused = cast("Reports", object())  # the description of the address does not use it
    probe = ProbePort(cast("Agents", None), cast("AgentPods", None), "")
    return create_reports_app(unused, acting=lambda: True, probe=probe).openapi()


def api_page() -> str:
    doors = _DOORS.format(table=table(("port", "setting", "what it serves", "callers"), _ports_table()))
    operations = list(_operations(served().openapi, reports_openapi()))
    addresses = table(("method", "path", "ports", "answers", ""), [_address_row(*one) for one in operations])
    text = f"{_API}{doors}\n## Addresses\n\n{addresses}"
    text += "\nBeside these: `/`, `/page/…`: [the page](../how-to/operate.md#the-page); `/docs` and `/openapi.json`.\n"
    parameters = [
        (code(path), code(one["name"]), _kind(one["schema"]), one.get("description", ""))
        for _, path, what in operations
        for one in what.get("parameters", ())
        if one["in"] != "path"
    ]
    text += f"\n## Query parameters\n\n{table(('path', 'name', 'type and default', ''), parameters)}"
    recorded = ((said, json.loads((WIRE / f"{name}.json").read_text())) for said, name in _EXAMPLES)
    return text + _THE_VERBS + "".join(f"\n{said}\n\n{json_block(document)}" for said, document in recorded)


def bodies_page() -> str:
    taken = _models([what.get("requestBody", {}) for _, _, what in _operations(served().openapi, reports_openapi())])
    limits = {name: f"number from {_number(low)} to {_number(top)}" for name, (low, top) in report_body.LIMITS.items()}
    rows = [(code(field), kind) for field, kind in (limits | {"time": "Unix seconds; without it: now"}).items()]
    return _BODIES + taken + _REPORT + table(("field", "type"), rows)


def answers_page() -> str:
    reports = [what["responses"]["200"] for _, _, what in _operations(reports_openapi())]
    return _ANSWERS + _models([*(what["responses"] for _, _, what in _operations(served().openapi)), *reports])


def _schemas() -> Mapping[str, Any]:
    ports = served().openapi, reports_openapi()
    return dict(sorted((name, one) for port in ports for name, one in port["components"]["schemas"].items()))


def _models(start: Any) -> str:
    found: set[str] = set()
    new = set(_NAMED.findall(json.dumps(start)))
    while new:
        new -= _VERBS_TYPES  # kube-scheduler's own; they stand in /docs
        found |= new
        new = {name for one in new for name in _NAMED.findall(json.dumps(_schemas()[one]))} - found
    return "\n".join(_model_part(name, schema) for name, schema in _schemas().items() if name in found)


def _model_part(name: str, schema: Mapping[str, Any]) -> str:
    about = first_paragraph(schema.get("description"))
    head = f"**{name}**" + (f": {about}" if about else "")
    if "enum" in schema:
        return f"{head} {_kind(schema)}\n"
    needed = schema.get("required", ())
    told: list[str] = []
    bare: list[str] = []
    for field, what in schema.get("properties", {}).items():
        said = first_paragraph(what.get("description"))
        kind = f"{code(field)} {_kind(what)}" + ("" if field in needed or "default" in what else "; may be left out")
        if said:
            told.append(f"- {kind}: {said}\n")
        else:
            bare.append(kind)
    if len(told) <= _FEW:
        return f"{head} {'; '.join([*(one[2:-1].rstrip('.') for one in told), *bare])}.\n"
    return f"{head}\n\n{''.join(told)}" + (f"- {', '.join(bare)}\n" if bare else "")


def _ports_table() -> Iterator[tuple[str, ...]]:
    settings = Settings()
    assert settings.debug_port is settings.health_port is settings.reports.port is None
    named = "kube-scheduler; with `tls.client_ca_file` only clients with a certificate of that authority"
    yield "verbs", f"`port` ({settings.port})", "verbs, documents; with `tls.client_ca_file` verbs and probes", named
    clients = "all clients that reach it ([TLS](../how-to/operate.md#documents))"
    yield "people", "`debug_port` (none)", "everything; no call changes anything", clients
    yield "health", "`health_port` (none)", "probes", "kubelet, Prometheus"
    reports = "[reports](../how-to/elastic-and-reports.md) of jobs, and of the [probe](probe.md)"
    yield "reports", "`reports.port` (none)", reports, _SECRET


def _operations(*ports: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in (one for openapi in ports for one in openapi["paths"].items()):
        for method, what in methods.items():
            yield method.upper(), path, what


def _address_row(method: str, path: str, what: Mapping[str, Any]) -> tuple[str, ...]:
    body = what.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    takes = f" Body: {_kind(body)}." if body else ""
    answers = []
    for status, answer in sorted(what["responses"].items()):
        schemas = [content.get("schema", {}) for content in answer.get("content", {}).values()]
        models = [_kind(schema) for schema in schemas if "$ref" in schema]
        answers += [" ".join([status, *models[:1]])] if status.isdigit() else []
    ports = "verbs, people, health" if path in PROBES else "verbs, people"
    ports = "reports" if path in reports_openapi()["paths"] else ports
    return method, code(path), ports, ", ".join(answers), f"{what['summary']}.{takes}"


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema or "oneOf" in schema:
        said = " or ".join(_kind(one) for one in schema.get("anyOf", schema.get("oneOf", ())))
    elif "const" in schema:
        said = code(json.dumps(schema["const"]))
    elif "enum" in schema:
        said = " or ".join(code(json.dumps(one)) for one in schema["enum"])
    elif schema.get("type") == "array":
        said = f"list of {_kind(schema.get('items', {}))}"
    elif isinstance(schema.get("additionalProperties"), Mapping):
        said = f"map to {_kind(schema['additionalProperties'])}"
    else:
        said = schema.get("type", "any")
    limits = [f"{word} {_number(schema[key])}" for key, word in _LIMITS.items() if key in schema]
    default = f"; {code(json.dumps(schema['default']))}" if "default" in schema else ""
    return " ".join([said, *limits]) + default


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 1e12 else f"{value:g}"
