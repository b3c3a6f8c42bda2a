"""Notes signed with the key that processes of tests share."""

from collections.abc import Mapping
from typing import Any, Final

from extender.signed_notes import Bearer, Notes

KEY: Final = b"k" * 32


def notes_of_a_former_process() -> Notes:
    return Notes(KEY)


def bearer_of(obj: Mapping[str, Any]) -> Bearer:
    meta = obj["metadata"]
    version, kind = obj.get("apiVersion", "v1"), obj.get("kind", "Pod")
    return Bearer(version, kind, meta.get("namespace", "default"), meta["name"], meta.get("uid", ""))
