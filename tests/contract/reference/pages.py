"""The pages of the reference that are written from the code when the site is built: one function for each file.

They are not committed, so no page can differ from the code. `make lint` writes them, then builds the site.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from cli.main import app
from tests.contract.reference.api import answers_page, api_page, bodies_page
from tests.contract.reference.settings import settings_page, sources_page
from tests.contract.reference.words import annotations_page, events_page, metrics_page, reasons_page, states_page

ROOT = Path(__file__).parents[3]


def cli_page() -> str:
    """What `netgang --help` and the help of each command say, by typer's own writer."""
    command = get_command(app)
    return get_docs_for_click(obj=command, ctx=Context(command), name="netgang", title="Commands")


PAGES: Mapping[str, Callable[[], str]] = {  # file below docs → its text
    "reference/settings.md": settings_page,
    "reference/settings-sources.md": sources_page,
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
