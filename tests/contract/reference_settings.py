"""settings.md and settings-sources.md of the reference: every setting with its default, from the settings."""

from collections.abc import Iterable, Iterator
from typing import Any

from extender.settings.mapping import EndpointRule, NodeEndpoints
from extender.settings.settings import FileSource, MaddashSource, Settings
from extender.settings.sources import (
    EsmondSource,
    OpenSearchSource,
    PrometheusAliases,
    PrometheusQuery,
    PrometheusSource,
)
from scoring.model.policy import Ratios
from tests.contract.reference_text import first_paragraph

_SETTINGS_HEAD = """# Settings

Every setting with its default; `extender/settings/settings.py` says the same with the reasons. File names as here,
nested ones as YAML or JSON mappings; environment `NETGANG_` + the name in capitals, with `__` for each dot. Those of
one network source, endpoint or rule are in [settings-sources.md](settings-sources.md).

"""
_SOURCES_HEAD = """# Settings of network sources

What one network source, endpoint or rule (entries of lists and mappings below `network`) may hold; all others are in
[settings.md](settings.md).
"""


def settings_page() -> str:
    """docs/reference/settings.md as it must be."""
    return _tables(_SETTINGS_HEAD, (("", _rows(Settings)),))


def sources_page() -> str:
    """docs/reference/settings-sources.md as it must be."""
    parts = (
        ("\n## A file source\n\n", _rows(FileSource)),
        ("\n## A MaDDash source\n\n", _rows(MaddashSource)),
        ("\n## A perfSONAR archive (OpenSearch)\n\n", _rows(OpenSearchSource)),
        ("\n## A Prometheus source\n\n", _rows(PrometheusSource)),
        ("\n## A Prometheus query\n\n", _rows(PrometheusQuery)),
        ("\n## Aliases from Prometheus\n\n", _rows(PrometheusAliases)),
        ("\n## An esmond archive\n\n", _rows(EsmondSource)),
        ("\n## Endpoints of a node or zone\n\n", _rows(NodeEndpoints)),
        ("\n## A rule for endpoints\n\n", _rows(EndpointRule)),
    )
    return _tables(_SOURCES_HEAD, parts)


def _tables(head: str, parts: Iterable[tuple[str, Iterable[tuple[str, str, str]]]]) -> str:
    text = head
    for title, rows in parts:
        lines = [f"| `{name}` | {default} | {about} |\n" for name, default, about in rows]
        text += f"{title}| setting | default | |\n|---|---|---|\n{''.join(lines)}"
    return text


def _rows(model: Any, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """(name, default, first paragraph of the help) of every setting, nested ones with dots."""
    for name, field in model.model_fields.items():
        if hasattr(field.annotation, "model_fields"):
            yield from _rows(field.annotation, f"{prefix}{name}.")
            continue
        default = "required" if field.is_required() else f"`{_shown(field.get_default(call_default_factory=True))}`"
        yield f"{prefix}{name}", default, first_paragraph(field.description)


def _shown(value: object) -> str:
    """A default as it would be written in YAML."""
    match value:
        case None | True | False:
            return {None: "null", True: "true", False: "false"}[value]
        case tuple():
            return f"[{', '.join(map(str, value))}]"
        case Ratios(loss, delay, bandwidth):
            return f'"{loss:g}:{delay:g}:{bandwidth:g}"'
        case float():
            return f"{value:g}"
        case _:
            return str(value)
