"""The admission policies of the chart on a real API server: which pods get netgang's gate, and which do not."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeAlias

import pytest
import yaml

from extender.convert.pod import MIN_AVAILABLE_LABEL, NAME_ANNOTATIONS, NAME_LABEL, POD_GROUP_LABEL
from lab.testbed.api import Api, Object
from lab.testbed.objects import GangDialect, gang_labels, pod, restricted
from lab.testbed.objects import namespace as namespace_object
from lab.testbed.parts.installed import installed
from scoring.model import GATE
from tests.contract.manifests.rendered import gates as gates_of_the_chart
from tests.e2e.objects import OURS, as_stored, gates

LABELS, DEFAULT = gang_labels("job", 2), "default-scheduler"
NATIVE = {"schedulingGroup": {"podGroupName": "job"}}
Install: TypeAlias = Callable[[Sequence[Object], Sequence[str]], Awaitable[None]]


@pytest.fixture
async def install(api: Api) -> AsyncIterator[Install]:
    """Call it with the objects of components and the namespaces that their bindings may reach; gone afterwards."""
    created: list[Object] = []

    async def apply(items: Sequence[Object], namespaces: Sequence[str]) -> None:
        for item in items:
            if item["kind"] == "MutatingAdmissionPolicyBinding":
                only = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
                item["spec"]["matchResources"] = {"namespaceSelector": {"matchExpressions": [only]}}
            created.append(item)
            await api.apply(item)

    yield apply
    for item in reversed(created):
        await api.delete(item["kind"], item["metadata"]["name"])


def policy(name: str, mode: str = "") -> list[Object]:
    objects = installed(mode) if mode else gates_of_the_chart()
    return [deepcopy(dict(one)) for one in objects if one["metadata"]["name"] == name]


def member(namespace: str, *, scheduler: str = "netgang", spec: Mapping[str, Any] | None = None, **how: Any) -> Object:
    made = pod("p", namespace=namespace, scheduler=scheduler, **{"labels": LABELS, **how})
    return {**made, "spec": {**made["spec"], **(spec or {})}}


async def given(api: Api, one: Object) -> tuple[str, list[str]]:
    stored = await as_stored(api, one)
    return stored["spec"]["schedulerName"], sorted(gates(stored))


async def until_gated(api: Api, probe: Object, expected: Sequence[str] = (GATE,)) -> None:
    """Wait until a policy that was just created is in force: about 3 s."""
    read = partial(given, api, probe)
    await api.until(read, lambda found: found[1] == list(expected), what=f"gates {expected} added")


async def test_our_gang_pods_get_the_gate_and_no_others(api: Api, namespace: str, install: Install) -> None:
    await install(policy("netgang-gate"), [namespace, "kube-system", "netgang-system"])
    await until_gated(api, member(namespace))
    annotations = {key: member(namespace, labels={}, annotations={key: "job"}) for key in NAME_ANNOTATIONS}
    gated = {
        "two labels": member(namespace),
        "PodGroup": member(namespace, labels=gang_labels("job", 2, dialect=GangDialect.POD_GROUP)),
        "name without minimum, which /filter explains": member(namespace, labels={NAME_LABEL: "job"}),
        "minimum without name": member(namespace, labels={MIN_AVAILABLE_LABEL: "2"}),
        "empty PodGroup": member(namespace, labels={POD_GROUP_LABEL: ""}),
        "gate in the template": member(namespace, gates=[GATE]),
        "among other labels": member(namespace, labels={**LABELS, "app": "x"}, annotations={"note": "y"}),
        **annotations,
    }
    free = {
        "no mark": member(namespace, labels={"app": "x"}, annotations={"note": "y"}),
        "nothing at all": member(namespace, labels={}),
        "a label that only begins alike": member(namespace, labels={f"{POD_GROUP_LABEL}-x": "job"}),
        "a mark in the wrong place": member(namespace, labels={NAME_ANNOTATIONS[0]: "job"}),
        "default scheduler": member(namespace, scheduler=DEFAULT),
        "another scheduler": member(namespace, scheduler="netgang-scheduler"),
        "placed already": member(namespace, spec={"nodeName": "n1"}),
        "native group": member(namespace, spec=NATIVE),
        "kube-system": member("kube-system"),
        "netgang's own namespace": restricted(member("netgang-system")),
    }
    found = {case: (await given(api, one))[1] for case, one in (gated | free).items()}
    assert found == {case: [GATE] for case in gated} | {case: [] for case in free}

    others = ["example.org/image", "example.org/quota"]
    assert await given(api, member(namespace, gates=others[::-1])) == (OURS, [*others, GATE])


async def test_a_gate_that_was_removed_stays_removed(api: Api, namespace: str, install: Install) -> None:
    await install(policy("netgang-gate"), [namespace])
    await until_gated(api, member(namespace))
    await api.create(member(namespace, annotations={"note": "y"}))
    stored = await api.get("Pod", "p", namespace=namespace)
    assert stored["spec"]["schedulingGates"] == [{"name": GATE}]

    await api.patch("Pod", "p", [{"op": "remove", "path": "/spec/schedulingGates"}], namespace=namespace)
    change = {"metadata": {"labels": {POD_GROUP_LABEL: "other"}, "annotations": {"netgang.io/nudge": "1"}}}
    assert gates(await api.patch("Pod", "p", change, namespace=namespace)) == []


async def test_the_name_policy_brings_gate_and_name_in_any_order(api: Api, namespace: str, install: Install) -> None:
    """The API server orders policies at random: of eight with a gate each, some run before the name's."""
    other = f"{namespace}-out"
    await api.create(namespace_object(other))
    await api.patch("Namespace", namespace, {"metadata": {"labels": {"netgang.io/schedule": "true"}}})
    wanted = [f"{GATE}-{number}" for number in range(8)]
    text = yaml.safe_dump_all(policy("netgang-gate"))
    for name in wanted:
        copy = text.replace(GATE, name).replace("netgang-gate", name.replace("netgang.io/", "netgang-"))
        await install(list(yaml.safe_load_all(copy)), [namespace, other])
    await install(policy("netgang-scheduler-name"), [namespace, other])
    await until_gated(api, member(namespace), wanted)

    plain, ours, left = partial(member, namespace, scheduler=DEFAULT), (OURS, wanted), (DEFAULT, list[str]())
    named = partial(given, api, plain())
    await api.until(named, lambda found: found[0] == OURS, what="the scheduler's name set")
    cases = {  # case → (pod, scheduler and gates that are right)
        "opted in": (plain(), ours),
        "opted in, by annotation": (plain(labels={}, annotations={NAME_ANNOTATIONS[1]: "job"}), ours),
        "ours already": (member(namespace), ours),
        "a foreign gate": (plain(gates=["a/b"]), (OURS, ["a/b", *wanted])),
        "no mark": (plain(labels={}), left),
        "another scheduler": (member(namespace, scheduler="volcano"), ("volcano", [])),
        "placed already": (plain(spec={"nodeName": "n1"}), left),
        "native group": (plain(spec=NATIVE), left),
        "not opted in": (member(other, scheduler=DEFAULT), left),
    }
    found = {case: await given(api, one) for case, (one, _) in cases.items()}
    assert found == {case: right for case, (_, right) in cases.items()}


async def test_in_mode_native_pods_of_kubernetes_gangs_are_gated(api: Api, namespace: str, install: Install) -> None:
    await install(policy("netgang-gate", "native"), [namespace])
    await until_gated(api, member(namespace, scheduler=DEFAULT, labels={}, spec=NATIVE))
    assert await given(api, member(namespace, spec=NATIVE)) == (OURS, [])
    assert await given(api, member(namespace, scheduler=DEFAULT)) == (DEFAULT, [])
