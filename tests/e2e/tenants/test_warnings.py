"""What `kubectl apply` says of probable mistakes: a real API server with the chart's warnings."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from lab.testbed.api import Api, Object
from lab.testbed.objects import gang_labels, pod
from lab.testbed.parts.installed import installed

LABELS = gang_labels("g", 2)
NAME, LEAST = LABELS


def job(namespace: str, *, labels: dict[str, str], scheduler: str = "netgang", **metadata: Any) -> Object:
    spec = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never", "schedulerName": scheduler}
    template = {"metadata": {"labels": labels, **metadata}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": namespace},
        "spec": {"template": template},
    }


def plain(namespace: str, **how: Any) -> Object:
    return pod("p", namespace=namespace, **how)


@pytest.fixture
async def warned(api: Api) -> AsyncIterator[None]:
    items = [one for one in installed() if one["metadata"]["name"] == "netgang-warnings"]
    for one in items:
        await api.apply(one)
    yield
    for one in reversed(items):
        await api.delete(one["kind"], one["metadata"]["name"])


async def said_of(api: Api, one: Object) -> Sequence[str]:
    """The warnings of creating it, in dry-run."""
    plural = {"Job": "/apis/batch/v1/namespaces/{}/jobs", "Pod": "/api/v1/namespaces/{}/pods"}[one["kind"]]
    path = plural.format(one["metadata"]["namespace"])
    return [text for text in await api.warnings("POST", path, body=one, params={"dryRun": "All"}) if "netgang" in text]


async def test_probable_mistakes_are_said_and_nothing_is_refused(api: Api, namespace: str, warned: None) -> None:
    wrong = {
        "a misspelt name": (job(namespace, labels={NAME.replace("name", "nmae"): "g", LEAST: "2"}), "nmae"),
        "a misspelt prefix": (job(namespace, labels={NAME.replace("pod-group", "podgroup"): "g"}), "podgroup"),
        "a label that is an annotation": (plain(namespace, labels={"netgang.io/zones": "D"}), "netgang.io/zones"),
        "an annotation that is a label": (
            plain(namespace, annotations={NAME: "g"}, scheduler="netgang"),
            f"annotation {NAME}",
        ),
        "an unknown option": (job(namespace, labels=LABELS, annotations={"netgang.io/zonez": "D"}), "zonez"),
        "a scheduler that is not ours": (job(namespace, labels=LABELS, scheduler="net-gang"), "schedulerName net-gang"),
        "no scheduler": (plain(namespace, labels=LABELS, scheduler="default-scheduler"), "default-scheduler"),
    }
    right = {
        "a gang": job(namespace, labels=LABELS, annotations={"netgang.io/zones": "D"}),
        "pods of others": plain(namespace, labels={"app.kubernetes.io/name": "x"}, scheduler="default-scheduler"),
    }
    probe = wrong["a misspelt name"][0]
    await api.until(lambda: said_of(api, probe), lambda found: len(found) > 0, what="the policy is in force")
    found = {case: await said_of(api, one) for case, (one, _) in wrong.items()}
    assert {case: len(texts) for case, texts in found.items()} == dict.fromkeys(wrong, 1)
    assert [case for case, (_, part) in wrong.items() if part not in found[case][0]] == []
    assert [await said_of(api, one) for one in right.values()] == [[], []]
