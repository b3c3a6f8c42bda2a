"""Objects as API servers sent them, one file for each kind that netgang reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "fixtures" / "objects"


def recorded() -> Mapping[str, list[dict[str, Any]]]:
    """Plural of the kind → its objects."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
