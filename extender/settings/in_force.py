"""Settings as they are in force, to be shown and compared: what differs from the defaults, without secrets.

Why the difference: it is short, it is what an operator wrote, and given to `Settings` it makes the same settings again
(a test holds this for every settings file of the project). Secrets are no settings, only files and variables that hold
them; should an address have a user name or a query all the same, it is cut.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from extender.settings.settings import Settings

_USER: Final = re.compile(r"(?<=://)[^/@\s]+@")
_QUERY: Final = re.compile(r"(?<=://)([^\s?]*)\?\S*")


def changed(settings: Settings) -> dict[str, Any]:
    """Settings that differ from their defaults, nested, as JSON has them.

    >>> changed(Settings(port=9000, queue={"order": "fifo"}))
    {'port': 9000, 'queue': {'order': 'fifo'}}
    """
    found: dict[str, Any] = _bare(settings.model_dump(mode="json", exclude_defaults=True))
    return found


def names() -> tuple[str, ...]:
    """Every setting that has a default, nested ones joined by dots, in alphabetical order."""
    return tuple(sorted(name for name, _ in flat(Settings().model_dump(mode="json"))))


def flat(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; lists and empty mappings are values.

    >>> list(flat({"port": 1, "queue": {"order": "fifo"}, "zones": {}}))
    [('port', 1), ('queue.order', 'fifo'), ('zones', {})]
    """
    for name, value in nested.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of settings that two answers of `changed` do not have in common, dotted, in alphabetical order.

    >>> differences({"port": 1, "queue": {"order": "fifo"}}, {"port": 1, "spill_wait_s": 5.0})
    ('queue.order', 'spill_wait_s')
    """
    left, right = dict(flat(one)), dict(flat(other))
    unlike = [name for name in left.keys() | right.keys() if name not in left or name not in right]
    return tuple(sorted([*unlike, *(name for name in left.keys() & right.keys() if left[name] != right[name])]))


def _bare(value: Any) -> Any:
    """Without credentials in addresses.

    >>> _bare({"urls": ["https://ann:secret@host/x?token=y", "plain"]})
    {'urls': ['https://…@host/x?…', 'plain']}
    """
    if isinstance(value, Mapping):
        return {name: _bare(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_bare(one) for one in value]
    return _QUERY.sub(r"\1?…", _USER.sub("…@", value)) if isinstance(value, str) else value
