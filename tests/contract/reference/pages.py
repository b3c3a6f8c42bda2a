"""The reference: one function for each file, which a test holds the file equal to. Renew all of them with
`.venv/bin/python -m tests.contract.reference`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.contract.manifests import chart_schema
from tests.contract.reference.api import answers_page, api_page, bodies_page
from tests.contract.reference.cli import cli_page
from tests.contract.reference.settings import settings_page, sources_page
from tests.contract.reference.words import annotations_page, events_page, metrics_page, reasons_page, states_page

ROOT = Path(__file__).parents[3]
COMMAND = "tests.contract.reference"
_INDEX = f"""# Reference

The pages of the first table are written from the code by `.venv/bin/python -m {COMMAND}`; a test
fails when a page and the code differ.

| page | what it lists |
|---|---|
| [settings](settings.md) | every setting with its default; [those of network sources](settings-sources.md) |
| [annotations](annotations.md) | annotations, labels, gates: name, object, values, default, example |
| [reasons](reasons.md) | every reason for which a pod, gang or bind is refused: what it means, what to do |
| [states](states.md) | states of gangs, PodGroups and jobs, and why a job keeps its size |
| [Events](events.md) | every Kubernetes Event: reason, type, object |
| [metrics](metrics.md) | every metric: type, labels |
| [API](api.md) | addresses, ports, parameters, verbs; fields of [bodies](api-bodies.md), [answers](api-documents.md) |
| [commands](cli.md) | the command line: options, exit codes, examples |

| page | what it says |
|---|---|
| [the extender](extender.md) | the verbs, the score, gangs, kube-scheduler's configuration |
| [network sources](network.md) | MaDDash, files, which node is which endpoint; [archives](archives.md) |
| [the probe](probe.md) | which nodes measure each other, and how their reports count; [its agent](probe-agent.md) |
| [elastic jobs](elastic-jobs.md) | the kinds of jobs that can be resized, and how |
| [filters](filters.md) | kube-scheduler's filters: which of them the planner knows; how devices are counted |
| [notes](notes.md) | what netgang writes on your objects, and how it is signed |
| [rights](rights.md) | what netgang's account may do |
| [the doctor](doctor.md) | every finding of `netgang doctor`, and what to do |
"""


def index_page() -> str:
    return _INDEX


PAGES: Mapping[str, Callable[[], str]] = {  # file below docs → its text
    "reference/settings.md": settings_page,
    "reference/settings-sources.md": sources_page,
    "reference/README.md": index_page,
    "reference/annotations.md": annotations_page,
    "reference/reasons.md": reasons_page,
    "reference/states.md": states_page,
    "reference/events.md": events_page,
    "reference/metrics.md": metrics_page,
    "reference/api.md": api_page,
    "reference/api-bodies.md": bodies_page,
    "reference/api-documents.md": answers_page,
    "reference/cli.md": cli_page,
}


def write() -> None:
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page())
    chart_schema.FILE.write_text(chart_schema.text())
