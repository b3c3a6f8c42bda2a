"""The rules of the published pSConfig schema (5.2) for the objects that a template of ours has, as a checker.

Compared field by field with perfSONAR's `doc/psconfig-schema.json`; stricter in two things: no other collections, and
no disjoint groups.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9:._\-]+")
DURATION = re.compile(r"P(\d+(\.\d+)?W)?(\d+(\.\d+)?D)?(T(\d+(\.\d+)?H)?(\d+(\.\d+)?M)?(\d+(\.\d+)?S)?)?")
HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")

TOP = {"addresses", "groups", "tests", "tasks"}
FIELDS: Mapping[str, tuple[set[str], set[str]]] = {  # collection → (fields an entry must have, fields it may have)
    "addresses": ({"address"}, {"host", "labels", "tags", "disabled", "no-agent", "_meta"}),
    "archives": ({"archiver", "data"}, {"transform", "ttl", "label", "runs", "schema", "_meta"}),
    "tests": ({"type", "spec"}, {"_meta"}),
    "schedules": (set(), {"start", "slip", "sliprand", "repeat", "until", "max-runs", "_meta"}),
    "tasks": (
        {"group", "test"},
        {"scheduled-by", "schedule", "disabled", "archives", "tools", "subtasks", "priority", "reference", "_meta"},
    ),
    "groups": ({"type", "addresses"}, {"default-address-label", "excludes-self", "excludes", "_meta"}),  # mesh
}
TYPES: Mapping[str, tuple[type, type | None]] = {  # field → (its type, that of its items)
    **dict.fromkeys(
        (
            "address",
            "host",
            "archiver",
            "label",
            "type",
            "slip",
            "repeat",
            "group",
            "test",
            "schedule",
            "excludes-self",
        ),
        (str, None),
    ),
    **dict.fromkeys(("tags", "archives", "tools", "subtasks"), (list, str)),
    **dict.fromkeys(("addresses", "excludes"), (list, dict)),
    **dict.fromkeys(("disabled", "no-agent", "sliprand"), (bool, None)),
    **dict.fromkeys(("scheduled-by", "priority"), (int, None)),
    "labels": (dict, None),
}
"""Fields that are not here (`data`, `spec`, `reference`, `_meta`) may be anything."""


def problems(template: Mapping[str, Any]) -> list[str]:
    return list(_problems(template))


def _problems(template: Mapping[str, Any]) -> Iterator[str]:
    for missing in TOP - template.keys():
        yield f"{missing} is missing"
    for unknown in template.keys() - FIELDS.keys() - {"_meta"}:
        yield f"{unknown} is no collection"
    for collection, (must, may) in FIELDS.items():
        for name, entry in template.get(collection, {}).items():
            where = f"{collection}.{name}"
            if not NAME.fullmatch(name):
                yield f"{where}: name"
            yield from (f"{where}: {field} is missing" for field in must - entry.keys())
            yield from (f"{where}: {field} is no field" for field in entry.keys() - must - may)
            yield from (f"{where}: {field} is of another type" for field in entry if not _typed(field, entry[field]))
    for name, address in template["addresses"].items():
        if not _is_host(address["address"]):
            yield f"addresses.{name}: {address['address']}"
    for name, schedule in template.get("schedules", {}).items():
        if not all(DURATION.fullmatch(schedule[field]) for field in ("repeat", "slip")):
            yield f"schedules.{name}: duration"
    for name, group in template["groups"].items():
        if group["type"] != "mesh":
            yield f"groups.{name}: type"
        selected = list(group["addresses"])
        for pair in group.get("excludes", []):
            if pair.keys() != {"local-address", "target-addresses"}:
                yield f"groups.{name}: excludes"
            selected += [pair["local-address"], *pair["target-addresses"]]
        for one in selected:
            if one.keys() != {"name"} or one["name"] not in template["addresses"]:
                yield f"groups.{name}: {one}"
    for name, task in template["tasks"].items():
        named = [("groups", task["group"]), ("tests", task["test"])]
        named += [("schedules", task["schedule"])] if "schedule" in task else []
        named += [("archives", archive) for archive in task.get("archives", [])]
        yield from (f"tasks.{name}: no {what} {one}" for what, one in named if one not in template.get(what, {}))


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return HOST.fullmatch(text) is not None
    return True


def _typed(field: str, value: object) -> bool:
    if field not in TYPES:
        return True
    kind, of_items = TYPES[field]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return False
    return of_items is None or (isinstance(value, list) and all(isinstance(item, of_items) for item in value))
