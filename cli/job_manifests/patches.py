"""Merge a patch into an object as the API server's strategic merge patch does, as far as pod templates need it.

Rule: mappings are merged; lists whose items have the key of `_KEYS` are merged item by item, and keep their order;
other lists are replaced; null removes. Directives ($patch, $retainKeys) are refused: an answer without them is wrong.
"""

from collections.abc import Mapping
from typing import Any, Final

_KEYS: Final[Mapping[str, str]] = {  # field → what names an item of its list
    **dict.fromkeys(("replicatedJobs", "dependsOn", "containers", "initContainers", "volumes", "env"), "name"),
    **dict.fromkeys(("schedulingGates", "resourceClaims", "imagePullSecrets"), "name"),
    "topologySpreadConstraints": "topologyKey",
}


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the patch. Errors: ValueError for a directive, KeyError and TypeError for items of another form.

    >>> merged({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3, "c": None}, "d": [2]})
    {'a': {'b': 3}, 'd': [2]}
    >>> merged({"containers": [{"name": "x", "env": 1}, {"name": "y"}]}, {"containers": [{"name": "x", "cpu": 2}]})
    {'containers': [{'name': 'x', 'env': 1, 'cpu': 2}, {'name': 'y'}]}
    """
    found = dict(base)
    for field, value in patch.items():
        if field.startswith("$"):
            raise ValueError(f"patches with {field} are not read")
        if value is None:
            found.pop(field, None)
        elif isinstance(value, dict):
            found[field] = merged(found.get(field) or {}, value)
        elif isinstance(value, list) and field in _KEYS:
            found[field] = _items(found.get(field) or (), value, _KEYS[field])
        else:
            found[field] = value
    return found


def _items(base: Any, patch: list[Any], key: str) -> list[Any]:
    by_name = {one[key]: one for one in base}
    for one in patch:
        by_name[one[key]] = merged(by_name.get(one[key]) or {}, one)
    return list(by_name.values())
