"""GET /v1/settings: the settings by which this process runs."""

from typing import Any

from extender.schemas.record import Record


class SettingsInForce(Record):
    """Settings in force, wherever they came from: the command line, the environment, the file, or the defaults."""

    version: str  # netgang's.
    changed: dict[str, Any]  # Those that differ from their defaults, nested as in a settings file; no secrets.
    names: tuple[str, ...]  # Every setting that has a default, nested ones joined by dots.
