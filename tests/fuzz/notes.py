"""Everything that reads a text which tenants write, beside the reflectors, with signatures taken as good."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from extender.controllers.elastic.intent import intent_of
from extender.controllers.elastic.kinds import own_bounds
from extender.controllers.elastic.reports import read_report
from extender.controllers.failure_budget import decoded
from extender.controllers.owners import quota_notes
from extender.controllers.removal.preemptions import noted_of
from extender.controllers.removal.suspensions import FreshOwner
from extender.convert import pod_from_json
from extender.convert.labels import own_options
from extender.errors import BadRequestError
from extender.notes import Bearer, UncheckedNotes
from scoring.model import Controller
from scoring.model.policy import KNOWN_OPTIONS, Policy, gang_options
from scoring.model.resources import NO_RESOURCES
from tests.builders import gang

_NOTES: Final = UncheckedNotes()
_REF: Final = Controller("batch/v1", "Job", "j", "u")
_BEARER: Final = Bearer("batch/v1", "Job", "team", "j", "u")
_SIGNED: Final = " hmac1.x"


class Reader(msgspec.Struct, frozen=True):
    """What is read: `given` puts the text where a tenant would, `read` reads that."""

    given: Callable[[str], Any]
    read: Callable[[Any], object]


def _object(text: str, *names: str, signed: bool = False) -> bytes:
    value = text + _SIGNED if signed else text
    annotations = {f"netgang.io/{one}": value for one in names}
    metadata = {"name": "x", "namespace": "team", "uid": "u", "annotations": annotations}
    return msgspec.json.encode({"metadata": metadata, "spec": {}})


def _quota(text: str) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "q"}, "status": {"hard": {"cpu": text}, "used": {"cpu": text}}})


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _options(annotations: dict[str, str]) -> object:
    return gang_options(dict(own_options(annotations, written_by_us=frozenset())), Policy(), namespace="team")


def _report(body: bytes) -> object:
    try:
        return read_report(body, now_s=0.0)
    except BadRequestError:
        return None


READERS: Final[Mapping[str, Reader]] = {
    "resume": Reader(lambda text: _object(text, "resume", signed=True), lambda raw: FreshOwner(_REF, raw).note(_NOTES)),
    "restarts": Reader(
        lambda text: _object(text, "restarts", signed=True),
        lambda raw: FreshOwner(_REF, raw).restarts(_NOTES, now_s=1e9),
    ),
    "last-change": Reader(
        lambda text: {"netgang.io/last-change": text + _SIGNED}, lambda found: intent_of(found, _BEARER, _NOTES)
    ),
    "admitted": Reader(lambda text: _object(text, "admitted", signed=True), partial(pod_from_json, notes=_NOTES)),
    "preempts": Reader(
        lambda text: _object(text, "preempts", signed=True),
        lambda raw: noted_of(gang("g", members=[pod_from_json(raw, notes=_NOTES)])),
    ),
    "options of a pod": Reader(lambda text: _object(text, "zones", "ratios", "typo"), pod_from_json),
    "all options": Reader(
        lambda text: {f"netgang.io/{name}": text for name in (*KNOWN_OPTIONS, "role", "index", "typo")}, _options
    ),
    "bounds of a job": Reader(
        lambda text: _object(text, "min-workers", "max-workers"), lambda raw: own_bounds(decoded(raw), {})
    ),
    "quota": Reader(_quota, lambda raw: quota_notes(decoded(raw), NO_RESOURCES)),
    "an owner": Reader(_raw, lambda raw: (FreshOwner(_REF, raw).over, FreshOwner(_REF, raw).suspended)),
    "a report": Reader(_raw, _report),
}
