"""A waiting gang's cause on a real control plane: in /v1/explain and its Event, beside kube-scheduler's own words."""

from functools import partial

from lab.testbed.api import Object
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage

CASES: dict[str, tuple[str, str]] = {  # gang: (cause, words)
    "unlabelled": ("NodeLabelMissing", "No node of the cluster has label disk=sdd"),
    "claimless": ("ClaimMissing", 'persistentvolumeclaim "nowhere" not found'),
    "closed": ("NodesCordoned", "2 of 3 nodes of zone a are cordoned; zone a has room for 1 of 3 pods"),
}
EVENTS = {"unlabelled": "GangCannotStart", "claimless": "GangWaiting", "closed": "GangCannotStart"}
REFUSED = "didn't match Pod's node affinity/selector"


async def test_causes_of_a_real_kube_scheduler(stage: Stage) -> None:
    netgang = await stage.netgang(on={"a": 3}, cpu="8")
    for node in ("node1", "node2"):
        await stage.api.patch("Node", node, {"spec": {"unschedulable": True}})
    asked = {gang: stage.gang(gang, 3 if gang == "closed" else 1, cpu="5") for gang in CASES}
    asked["unlabelled"][0]["spec"]["nodeSelector"] = {"disk": "sdd"}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "nowhere"}}
    asked["claimless"][0]["spec"]["volumes"] = [claim]
    for one in asked["closed"]:
        del one["spec"]["tolerations"]  # a pod that tolerates every taint may go to a cordoned node
    for gang, (cause, words) in CASES.items():
        await stage.api.create_all(asked[gang])
        path = f"/v1/explain/{stage.namespace}/{gang}"
        found = await stage.until_document(netgang, path, partial(_is_caused, cause, words), f"{gang}: {cause}")
        assert words in found["cause"]["message"]
    for gang, reason in EVENTS.items():
        about = name_of(asked[gang][0])
        said = await stage.until_events(reason, partial(_is_said, about, CASES[gang][1]))
        assert CASES[gang][1] in said[about]
    path = f"/v1/explain/{stage.namespace}/unlabelled"
    found = await stage.until_document(netgang, path, _has_words, "kube-scheduler's own words")
    assert [one for one in found["notes"] if REFUSED in one]


def _is_caused(reason: str, words: str, explained: Object) -> bool:
    cause = explained["cause"] or {"reason": "", "message": ""}
    return bool(cause["reason"] == reason and words in cause["message"])


def _is_said(pod: str, words: str, events: dict[str, str]) -> bool:
    return words in events.get(pod, "")


def _has_words(explained: Object) -> bool:
    return any(one.startswith("kube-scheduler") and REFUSED in one for one in explained["notes"])
