"""Change an object as an API server sent it by chance, as a tenant may who knows how netgang reads it; a seed says how.

Values are replaced by such of another type or size, nested thousands of levels deep, cut, repeated, made a megabyte
long; a text is broken in its bytes. Mostly the object's name stays, so that the same objects change again and again.
"""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

MEGABYTE: Final = 2**20
_LONGEST_BYTES: Final = 3 * MEGABYTE // 2
DEPTHS: Final = (9, 101, 1_100, 9_000)
_HOWS: Final = ("replace", "replace", "replace", "nest", "cut", "repeat", "repeat", "swap", "swap")
_OWN: Final = "netgang.io/"
_NAMES: Final = (
    *("zones", "near", "ratios", "selection", "weight", "role", "index", "min-workers", "max-workers", "scaling"),
    *("admitted", "preempts", "resume", "restarts", "last-change", "nudge", "no-such", "gang", "attempt", "endpoint"),
)
_PREFIXED: Final = (
    "scheduling.k8s.io/group-name", "scheduling.k8s.io/group-min-member", "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available",
    "training.kubeflow.org/job-name", "training.kubeflow.org/replica-index", "leaderworkerset.sigs.k8s.io/size",
    "batch.kubernetes.io/job-completion-index",
)  # fmt: skip
_MANY: Final = tuple(f"k{number}" for number in range(MEGABYTE // 14))
_DEEP: Final = "@deep@"  # stands for nesting until the object is text: a value cannot be encoded that is so deep
_SHORT: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**300, 1.5, 1e308, -0.0,
    "", " ", "0", "-1", "1", "½", "\x00", "9" * 30, "9E", "1e999", "1e-999", "1e9999999", "NaN", "inf", "0x10", "٣",
    "\u202e", "a/b", "../..", "e\u0301" * 30, "20:40:40", "1:1:1e9", "nan:1:1", "z,z,z",
    "{", "[" * 3000, '{"x":' * 3000, '{"to":1,"from":2,"at":"x"}', "null", "[]",
    "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-01-01T00:00:00Z", "now",
    [], {}, [None], [[]], [{}], {"": None}, {"name": "x"}, [1, "1"], {"x": {"y": []}},
)  # fmt: skip


def recorded() -> Mapping[str, list[dict[str, Any]]]:
    """Plural of each kind that netgang reads → its recorded objects, one file for each kind."""
    folder = Path(__file__).parents[1] / "fixtures" / "objects"
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def mutated(rng: random.Random, recorded: list[dict[str, Any]]) -> bytes:
    """One object of these as JSON, changed in one to four places; not longer than an API server takes."""
    value = _copy(rng.choice(recorded))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        _change(rng, value, recorded)
    metadata = value.get("metadata")
    if isinstance(metadata, dict):  # the API server gives every name a uid of its own, whatever a tenant writes
        metadata["uid"] = json.dumps([metadata.get("namespace"), metadata.get("name")])[:200]
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    while f'"{_DEEP}"' in text:
        depth, (left, right) = rng.choice(DEPTHS), rng.choice((("[", "]"), ('{"x":', "}")))
        text = text.replace(f'"{_DEEP}"', left * depth + "1" + right * depth, 1)
    raw = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.02:
        at = rng.randrange(len(raw))
        broken = (raw[:at], raw[:at] + b"\xff" + raw[at + 1 :], raw[:at] + b"\\" + raw[at:], b"", b"[]", b"null")
        raw = rng.choice(broken)
    return raw if len(raw) <= _LONGEST_BYTES else mutated(rng, recorded)


def hostile_text(rng: random.Random) -> str:
    found = _short(rng) if rng.random() < 0.5 else json.dumps(_short(rng))
    found = found if isinstance(found, str) else json.dumps(found)
    return str(_long(rng, found) if rng.random() < 0.1 else found)


def _change(rng: random.Random, value: dict[str, Any], recorded: list[dict[str, Any]]) -> None:
    if rng.random() < 0.25 or not value:
        _annotate(rng, value)
        return
    place, key = _place(rng, value)
    if key in ("name", "namespace") and rng.random() < 0.9:
        return
    held = place[key]
    match _HOWS[rng.randrange(len(_HOWS))]:
        case "replace":
            place[key] = _short(rng)
        case "nest":
            place[key] = _DEEP if rng.random() < 0.5 else [[[{"x": held}]]]
        case "cut" if isinstance(held, str | list) and held:
            place[key] = held[: rng.randrange(len(held))]
        case "cut":
            del place[key]
        case "repeat":
            _repeat(rng, place, key)
        case "swap":
            other, name = _place(rng, rng.choice(recorded))
            place[key] = _copy(other[name])


def _annotate(rng: random.Random, value: dict[str, Any]) -> None:
    metadata = value.get("metadata")
    if not isinstance(metadata, dict):
        return
    key = _OWN + rng.choice(_NAMES) if rng.random() < 0.7 else rng.choice(_PREFIXED)
    held = metadata.setdefault(rng.choice(("annotations", "annotations", "labels")), {})
    if isinstance(held, dict):
        # A note of ours ends with a signature, and what reads objects here takes every signature as good.
        held[key] = hostile_text(rng) + rng.choice(("", " hmac1.x")) if rng.random() < 0.95 else None


def _place(rng: random.Random, value: Any) -> tuple[Any, Any]:
    """Some place in the object: what holds it, and its key."""
    place, key = value, rng.choice(list(value))
    while isinstance(place[key], dict | list) and place[key] and rng.random() < 0.85:
        place = place[key]
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
    return place, key


def _copy(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _short(rng: random.Random) -> Any:
    return json.loads(json.dumps(rng.choice(_SHORT)))


def _repeat(rng: random.Random, place: Any, key: Any) -> None:
    held = place[key]
    times = rng.choice((2, 10, 200))
    if rng.random() < 0.15:
        place[key] = _long(rng, held)
    elif isinstance(held, str | list):
        place[key] = held * times
    elif isinstance(held, dict):
        held.update({f"{name}-{number}": one for name, one in list(held.items())[:3] for number in range(times)})
    else:
        place[key] = [held] * times


def _long(rng: random.Random, held: Any) -> Any:
    match rng.randrange(5):
        case 0:
            return "1" * MEGABYTE
        case 1:
            return "x," * (MEGABYTE // 2)
        case 2:
            return ["x"] * (MEGABYTE // 5)
        case 3:
            return dict.fromkeys(_MANY, "1")
        case _:
            text = held if isinstance(held, str) and held else "é"
            return text * (MEGABYTE // len(text.encode("utf-8", "surrogatepass")))
