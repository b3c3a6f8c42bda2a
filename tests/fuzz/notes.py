"""Everything that reads a text which tenants write, beside the reflectors, with signatures taken as good."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from extender.controllers.elastic.kinds import intent_of, own_bounds
from extender.controllers.elastic.reports import read_report
from extender.controllers.failure_budget import decoded
from extender.controllers.owners import quota_notes
from extender.controllers.removal.preemptions import noted_of
from extender.controllers.removal.suspensions import FreshOwner
from extender.convert import pod_from_json
from extender.convert.pod import own_options
from extender.errors import BadRequestError
from extender.signed_notes import Bearer, UncheckedNotes
from scoring.model import Controller
from scoring.model.pod import Resources
from scoring.model.policy import KNOWN_OPTIONS, Policy, gang_options
from tests.builders import gang

_NOTES: Final = UncheckedNotes()
_REF: Final = Controller("batch/v1", "Job", "j", "u")
_BEARER: Final = Bearer("batch/v1", "Job", "team", "j", "u")
_SIGNED: Final = " hmac1.x"
_RAW: Final = partial(str.encode, encoding="utf-8", errors="surrogatepass")


def _object(*names_and_text: str, signed: bool = False) -> bytes:
    *names, text = names_and_text
    annotations = {f"netgang.io/{one}": text + _SIGNED if signed else text for one in names}
    metadata = {"name": "x", "namespace": "team", "uid": "u", "annotations": annotations}
    return msgspec.json.encode({"metadata": metadata, "spec": {}})


def _report(body: bytes) -> object:
    try:
        return read_report(body, now_s=0.0)
    except BadRequestError:
        return None


READERS: Final[Mapping[str, tuple[Callable[[str], Any], Callable[[Any], object]]]] = {
    # name → what puts a text where a tenant would, and what reads that
    "resume": (partial(_object, "resume", signed=True), lambda raw: FreshOwner(_REF, decoded(raw)).note(_NOTES)),
    "restarts": (
        partial(_object, "restarts", signed=True),
        lambda raw: FreshOwner(_REF, decoded(raw)).restarts(_NOTES, now_s=1e9)),
    "last-change": (
        lambda text: {"netgang.io/last-change": text + _SIGNED}, lambda found: intent_of(found, _BEARER, _NOTES)),
    "admitted": (partial(_object, "admitted", signed=True), partial(pod_from_json, notes=_NOTES)),
    "preempts": (
        partial(_object, "preempts", signed=True),
        lambda raw: noted_of(gang("g", members=[pod_from_json(raw, notes=_NOTES)]))),
    "options of a pod": (partial(_object, "zones", "ratios", "typo"), pod_from_json),
    "all options": (
        lambda text: {f"netgang.io/{name}": text for name in (*KNOWN_OPTIONS, "role", "index", "typo")},
        lambda notes: gang_options(dict(own_options(notes)), Policy(), namespace="team")),
    "bounds of a job": (partial(_object, "min-workers", "max-workers"), lambda raw: own_bounds(decoded(raw), {})),
    "quota": (
        lambda text: msgspec.json.encode({"status": {part: {"cpu": text} for part in ("hard", "used")}}),
        lambda raw: quota_notes(decoded(raw), Resources.parse({"cpu": "1"}))),
    "an owner": (_RAW, lambda raw: (FreshOwner(_REF, decoded(raw)).over, FreshOwner(_REF, decoded(raw)).suspended)),
    "a report": (_RAW, _report),
}  # fmt: skip
