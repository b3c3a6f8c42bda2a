"""settings.md and settings-sources.md of the reference: every setting with its default, from the settings."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import asdict, fields

from extender.api.openapi import texts_of_fields
from extender.settings.network import (
    EndpointRule,
    FileSource,
    MaddashSettings,
    OpenSearchSettings,
    PrometheusQuery,
    PrometheusSettings,
)
from extender.settings.settings import Settings
from scoring.model.policy import Ratios, Ttl
from tests.contract.reference.text import code, first_paragraph, table

_SETTINGS_HEAD = """# Settings

In the file nested settings are YAML or JSON mappings; in the environment a name is `NETGANG_` + the name in capitals,
with `__` for each dot. What one network source, endpoint or rule may hold is in [network sources](settings-sources.md).

## Settings that people set

"""
_SOURCES_HEAD = """# Settings of network sources

What one network source, endpoint or rule (entries of lists and mappings below `network`) may hold.

## Options of OpenSearch and Prometheus sources

"""
OFTEN = (  # what operators usually set, in the order of the page: each must be a setting
    "scheduler_names", "zone_label", "zone_policy", "selection", "score.ratios", "network.sources", "network.mapping",
    "queue.order", "queue.starve_limit_s", "hold_limit_s",
    "http_timeout_s", "admit_to", "preemption", "repair.policy", "elastic.enabled",
    "leader_election", "tls.cert_file", "tls.key_file", "tls.client_ca_file", "record.enabled",
    "log_format",
)  # fmt: skip
Row: TypeAlias = tuple[str, str, str]


def settings_page() -> str:
    found = {row[0]: row for row in _rows(Settings)}
    often = [found.pop(name) for name in OFTEN]
    return _SETTINGS_HEAD + _table(often) + "\n## All others\n\n" + _table(found.values())


def sources_page() -> str:
    archives: dict[type[Struct], str] = {OpenSearchSettings: "opensearch", PrometheusSettings: "prometheus"}
    shared = set.intersection(*(set(_rows(record)) for record in archives))
    first = [row for row in _rows(OpenSearchSettings) if row in shared]
    parts = (
        ("A file source: `kind: file`", FileSource),
        ("A MaDDash source: `kind: maddash`", MaddashSettings),
        ("A perfSONAR archive: `kind: opensearch`", OpenSearchSettings),
        ("A Prometheus source: `kind: prometheus`", PrometheusSettings),
        ("A Prometheus query", PrometheusQuery),
        ("A rule for endpoints", EndpointRule),
    )
    text = _SOURCES_HEAD + _table(first)
    for title, record in parts:
        known = {"kind", *((name for name, _, _ in first) if record in archives else ())}
        text += f"\n## {title}\n\n{_table(row for row in _rows(record) if row[0] not in known)}"
    return text


def _table(rows: Iterable[Row]) -> str:
    return table(("setting", "default", ""), [(code(name), default, about) for name, default, about in rows])


def _rows(record: Any, prefix: str = "") -> Iterator[Row]:
    """(name, default, first paragraph of the help) of every setting, nested ones with dots."""
    texts, kinds = dict(texts_of_fields(record)), get_type_hints(record)
    for field in fields(record):
        if field.name in getattr(record, "fixed", ()):
            continue
        name, kind, default = field.name, kinds[field.name], field.default
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in (Ratios, Ttl):
            yield from _rows(kind, f"{prefix}{name}.")
            continue
        if field.default_factory is not NODEFAULT:
            default = field.default_factory()
        shown = "required" if default is NODEFAULT else f"`{_shown(default)}`"
        yield f"{prefix}{name}", shown, first_paragraph(texts[name])


def _shown(value: object) -> str:
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case tuple() | frozenset():
            return f"[{', '.join(map(str, value))}]"
        case Ttl():
            return "{" + ", ".join(f"{name}: {_shown(one)}" for name, one in asdict(value).items()) + "}"
        case Ratios(loss, delay, bandwidth):
            return f'"{loss:g}:{delay:g}:{bandwidth:g}"'
        case float():
            return f"{value:g}"
        case _:
            return str(value)
