"""What commands print for machines."""

import json
import sys
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(document: Any) -> None:
    """A document of plain values, indented."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_body(body: bytes) -> None:
    """A document that came as JSON, indented."""
    print_json(json.loads(body))
