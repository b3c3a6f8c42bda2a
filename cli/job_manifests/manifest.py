"""A manifest's objects: YAML or JSON, several documents, from a file or standard input.

Rule: only plain YAML is read (no tags that make objects), and everything is bounded before it is used: 1 MiB of text,
100 documents, 100,000 values with each alias counted as often as it is used, so that aliases cannot multiply.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from extender.errors import ConfigError

Object: TypeAlias = Mapping[str, Any]
MOST_BYTES: Final = 1 << 20
MOST_DOCUMENTS: Final = 100
MOST_VALUES: Final = 100_000


def read_manifest(path: Path) -> list[Object]:
    """The objects of a file (`-`: standard input), Lists taken apart. Errors: ConfigError names the file."""
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            body = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    if len(body) > MOST_BYTES:
        raise ConfigError(f"{path}: larger than {MOST_BYTES} bytes")
    found: list[Object] = []
    try:
        for number, document in enumerate(yaml.safe_load_all(body)):
            if number == MOST_DOCUMENTS:
                raise ConfigError(f"{path}: more than {MOST_DOCUMENTS} documents")
            if sum(1 for _ in zip(_values(document), range(MOST_VALUES), strict=False)) == MOST_VALUES:
                raise ConfigError(f"{path}: document {number}: more than {MOST_VALUES} values")
            found += _objects(path, number, document)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = str(error).partition("\n")[0] or "nested too deeply"
        raise ConfigError(f"{path}: not YAML: {first}") from error
    if not found:
        raise ConfigError(f"{path}: holds no object")
    return found


def _objects(path: Path, number: int, document: object) -> list[Object]:
    if document is None:
        return []
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ConfigError(f"{path}: document {number}: no Kubernetes object: it has no kind")
    if not document["kind"].endswith("List"):
        return [document]
    items = document.get("items")
    if not isinstance(items, list) or not all(isinstance(one, dict) and "kind" in one for one in items):
        raise ConfigError(f"{path}: document {number}: items is no list of objects")
    return items


def _values(whole: object) -> Iterator[None]:
    """One for each value, however often an alias repeats it; without end where an alias holds itself."""
    left = [whole]
    while left:
        one = left.pop()
        yield
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
