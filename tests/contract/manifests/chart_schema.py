"""charts/netgang/values.schema.json as it must be, written from the settings: renew it with
`.venv/bin/python -m tests.contract.manifests.chart_schema`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extender.settings.settings import Settings

FILE = Path(__file__).parents[3] / "charts/netgang/values.schema.json"
_LEFT_OUT = ("title", "description", "default", "format", "discriminator")
_TEXT = {"type": "string", "minLength": 1}
_FLAG = {"type": "boolean"}
_COUNT = {"type": "integer", "minimum": 1, "maximum": 10}
_RESOURCES = {"type": "object"}
_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_TAKEN = ("settings", "notes", "tls")  # volumes that the chart has itself
_LOOSE = {  # definition → what YAML may also say, which the settings read as well
    "Ratios": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]},
    "LeaderElection": {"enum": ["off", "on", True, False]},
    "Preempting": {"enum": ["off", "gangs", "levels", False]},
    "StatusMode": {"enum": ["auto", "on", "off", True, False]},
}


def _section(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": fields}


def _volume() -> dict[str, Any]:
    """A volume of a pod: a name that is free, and one source, which Kubernetes knows better than any copy of it."""
    name = {"type": "string", "pattern": _LABEL, "not": {"enum": list(_TAKEN)}}
    return {
        "type": "object",
        "required": ["name"],
        "minProperties": 2,
        "maxProperties": 2,
        "properties": {"name": name},
        "additionalProperties": {"type": "object"},
    }


def _mount() -> dict[str, Any]:
    """Where a container sees a volume; never where the chart's own are."""
    path = {"type": "string", "pattern": "^/", "not": {"pattern": "^/etc/netgang(-tls|-notes)?(/|$)"}}
    fields: dict[str, Any] = {"name": _TEXT, "mountPath": path, "readOnly": _FLAG, "subPath": _TEXT}
    return {**_section(**fields), "required": ["name", "mountPath"]}


def _placement() -> dict[str, Any]:
    """Where pods run. Labels by which Services, policies and the Deployment find pods stay the chart's own."""
    marks = {"type": "object", "additionalProperties": {"type": "string"}}
    taken = dict.fromkeys(("app.kubernetes.io/name", "netgang.io/role"), False)
    return {
        "nodeSelector": marks,
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
        "topologySpreadConstraints": {"type": "array", "items": {"type": "object"}},
        "priorityClassName": {"type": "string"},
        "podLabels": {**marks, "properties": taken},
        "podAnnotations": {**marks, "patternProperties": {"^checksum/": False}},
    }


def _bare(schema: Any) -> Any:
    """The schema without what decides nothing; names of properties are kept whatever they are."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: {name: _bare(one) for name, one in value.items()} if key in ("properties", "$defs") else _bare(value)
        for key, value in schema.items()
        if key not in _LEFT_OUT
    }


def document() -> dict[str, Any]:
    settings = _bare(Settings.model_json_schema())
    definitions = {name: _LOOSE.get(name, one) for name, one in settings.pop("$defs").items()}
    switch = _section(enabled=_FLAG)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "values of the chart netgang",
        "$defs": {**definitions, "Settings": settings},
        **_section(
            mode={"enum": ["second-scheduler", "native"]},
            image=_section(
                repository=_TEXT,
                tag={"type": "string", "not": {"const": "latest"}},
                pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]},
            ),
            imagePullSecrets={"type": "array", "items": _section(name=_TEXT)},
            replicas=_COUNT,
            nodeName={"type": "string"},
            resources=_RESOURCES,
            **_placement(),
            extraVolumes={"type": "array", "items": _volume()},
            extraVolumeMounts={"type": "array", "items": _mount()},
            settings={"$ref": "#/$defs/Settings"},
            scheduler=_section(
                image=_TEXT,
                tag={"type": "string", "pattern": r"^(v\d+\.\d+\.\d+.*)?$"},
                replicas={**_COUNT, "minimum": 0},
                resources=_RESOURCES,
                **_placement(),
            ),
            gates=_section(
                enabled=_FLAG,
                apiVersion={"enum": [f"admissionregistration.k8s.io/{one}" for one in ("v1", "v1beta1")]},
            ),
            **dict.fromkeys(
                (
                    "namespaces",
                    "explain",
                    "restart",
                    "elastic",
                    "lengths",
                    "reports",
                    "debugAuth",
                    "flowSchema",
                    "warnings",
                ),
                switch,
            ),
            probe=_section(enabled=_FLAG, hostNetwork=_FLAG, throughput=_FLAG),
            tls=_section(enabled=_FLAG, secret=_TEXT, schedulerSecret=_TEXT, clientName=_TEXT),
            monitoring=_section(enabled=_FLAG, dashboard=_FLAG),
            uninstall=_section(enabled=_FLAG, leaveGates=_FLAG),
            **{"global": {"type": "object"}},  # helm hands it to every chart
        ),
    }


def text() -> str:
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
