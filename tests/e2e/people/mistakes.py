"""Mistakes of data scientists and new platform engineers, and the words that name each: three tables.

Rule: a row is what somebody writes, not a state that a test makes; no row takes room that another one wants, so all can
be made at once. A name of a row is the name of its gang.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from lab.testbed.api import Object
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL, pod_group
from lab.testbed.parts.service import SECOND_SCHEDULER, Netgang
from tests.e2e.objects import gang, kind, shuns_gangs
from tests.e2e.stage import plain_client

Make = Callable[[str, str], list[Object]]  # name of the gang, its namespace → what is created

EVENT, ADMITTED, EXPLAIN = "Event", "condition netgang.io/Admitted", "/v1/explain"
EVERYWHERE = (EVENT, ADMITTED, EXPLAIN)


@dataclass(frozen=True)
class Mistake:
    """A manifest, the words that name what is wrong with it, and where they are."""

    make: Make
    says: tuple[str, ...]
    where: tuple[str, ...] = EVERYWHERE


Fields = Mapping[str, Any]
Heard = dict[tuple[str, str], list[str]]  # (where, gang) → the texts


def named(says: Sequence[str], heard: Iterable[str]) -> bool:
    """Whether one of the texts has all the words."""
    return any(all(words in text for words in says) for text in heard)


async def cause_of(netgang: Netgang, name: str) -> list[str]:
    """What /v1/explain says of a gang, and suggests."""
    async with plain_client(timeout=20.0) as client:
        reply = await client.get(f"{netgang.url}/v1/explain/{name}")
    cause = (reply.json().get("cause") if reply.is_success else None) or {}
    return [f"{cause.get('message', reply.text[:300])} {cause.get('suggestion', '')}"]


def pods(size: int = 1, *, spec: Fields | None = None, options: Mapping[str, str] | None = None, **how: Any) -> Make:
    """A gang whose pods have these fields of their spec, and annotations netgang.io/…"""

    def make(name: str, namespace: str) -> list[Object]:
        annotations = {f"netgang.io/{option}": text for option, text in (options or {}).items()}
        made = gang(name, size, namespace, **{"cpu": "100m", "annotations": annotations, **how})
        for one in made:
            one["spec"] |= {"tolerations": [], **(spec or {})}
        return made

    return make


def each(make: Make, *changes: Callable[[Object], Any]) -> Make:
    """The pods, the first with the first change, and so on."""

    def changed(name: str, namespace: str) -> list[Object]:
        made = make(name, namespace)
        for one, change in zip(made, changes, strict=True):
            change(one)
        return made

    return changed


def labelled(size: int = 1, **how: Any) -> Callable[..., Make]:
    """Pods with other labels than those of a gang; NAME stands for the gang's name."""

    def of(labels: Mapping[str, str]) -> Make:
        def make(name: str, namespace: str) -> list[Object]:
            made = pods(size, **how)(name, namespace)
            for one in made:
                one["metadata"]["labels"] = {key: text.replace("NAME", name) for key, text in labels.items()}
            return made

        return make

    return of


def asking(resource: str) -> Make:
    container = {"name": "main", "image": "x", "resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}
    return pods(spec={"containers": [container]})


def in_group(minimum: Any) -> Make:
    """A pod of a PodGroup, which needs so many; `None`: which is in another namespace."""

    def make(name: str, namespace: str) -> list[Object]:
        there = pod_group(name, minimum if minimum is not None else 1, namespace=namespace)
        if minimum is None:
            there["metadata"]["namespace"] = "default"
        return [there, *labelled()({POD_GROUP_LABEL: "NAME"})(name, namespace)]

    return make


def apart(name: str, namespace: str) -> list[Object]:
    """Four pods, of which no two may share a node: no zone has so many."""
    return [shuns_gangs(one, [name]) for one in pods(4, spec=at("b"))(name, namespace)]


def port(number: int) -> Mapping[str, Any]:
    return {"containers": [{"name": "main", "image": "x", "ports": [{"containerPort": number, "hostPort": number}]}]}


def two_runs(name: str, namespace: str) -> list[Object]:
    """Two Jobs under one gang name: the second one's pods are a run of their own."""
    made = labelled(2)({GROUP_NAME_LABEL: "NAME", MIN_AVAILABLE_LABEL: "1"})(name, namespace)
    for number, one in enumerate(made):
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job{number}", "uid": f"{name}-{number}"}
        one["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


def at(pool: str) -> dict[str, Any]:
    return {"nodeSelector": {"pool": pool}}


CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "datta"}}]}

GANGS: dict[str, Mistake] = {
    "cordoned": Mistake(
        pods(spec=at("cordoned")), ("2 of 2 nodes of zone cordoned are cordoned", "kubectl uncordon cordoned0")),
    "tainted": Mistake(pods(spec=at("tainted")), ("taint dedicated=ml:NoSchedule", "toleration")),
    "down": Mistake(pods(spec=at("down")), ("1 of 1 node of zone down is not ready", "kubectl describe node")),
    "label-value": Mistake(
        pods(spec={"nodeSelector": {"disk": "sdd"}}), ("No node of the cluster has label disk=sdd", "disk=ssd?")),
    "label-key": Mistake(
        pods(spec={"nodeSelector": {"dissk": "ssd"}}), ("label dissk=ssd", "did you mean disk?")),
    "zoneless": Mistake(pods(spec=at("zoneless")), ("pool=zoneless", "zone label")),
    "gpus": Mistake(asking("nvidia.com/gpus"), ("resource nvidia.com/gpus", "did you mean nvidia.com/gpu?")),
    "other-gpu": Mistake(asking("amd.com/xdna"), ("No node of the cluster has resource amd.com/xdna",)),
    "too-large": Mistake(pods(cpu="64"), ("asks for cpu 64; the largest node", "has 8", "add larger nodes")),
    "too-wide": Mistake(pods(4, cpu="5"), ("Even empty", "of 4 pods (cpu 5, memory 64Mi each)", "Lower the minimum")),
    "no-room": Mistake(
        pods(cpu="1500m", spec=at("full")), ("Too little room is free: zone full", "0 of 1 pod (cpu 1500m,")),
    "no-zone": Mistake(pods(options={"zones": "tainte"}), ("tainte", "did you mean tainted?")),
    "closed-zone": Mistake(
        pods(cpu="1500m", options={"zones": "full"}), ("zones=full leaves out zone", "has room for its pod")),
    "claim": Mistake(pods(spec=CLAIM), ('persistentvolumeclaim "datta" not found', "Create the claim")),
    "gate": Mistake(pods(gates=["kueue.x-k8s.io/admission"]), ("scheduling gate kueue.x-k8s.io/admission",)),
    "apart": Mistake(
        apart, ("4 pods must be on different nodes (podAntiAffinity)", "waiting does not help"), (EVENT,)),
    "port": Mistake(pods(4, spec=port(8080)), ("Each pod has host port 8080", "for 4 pods", "Drop hostPort")),
    "minimum": Mistake(pods(2, least=5), ("2 of 5 pods exist", "lower min-available")),
    "quota": Mistake(pods(1, least=2), ("quota forbids more: ResourceQuota team leaves 0 of pods",), (EXPLAIN,)),
    "minimum-word": Mistake(
        labelled()({GROUP_NAME_LABEL: "NAME", MIN_AVAILABLE_LABEL: "four"}), ("'four'", "whole number")),
    "minimum-zero": Mistake(labelled()({GROUP_NAME_LABEL: "NAME", MIN_AVAILABLE_LABEL: "0"}), ("at least 1",)),
    "no-minimum": Mistake(labelled()({GROUP_NAME_LABEL: "NAME"}), (MIN_AVAILABLE_LABEL, "is missing")),
    "two-minimums": Mistake(
        each(pods(2), lambda _: None, lambda one: one["metadata"]["labels"].update({MIN_AVAILABLE_LABEL: "3"})),
        ("different min-available: 2 (two-minimums-worker-0), 3 (", "make them equal")),
    "two-names": Mistake(
        labelled()({POD_GROUP_LABEL: "NAME", GROUP_NAME_LABEL: "other"}), ("name different groups", "keep one")),
    "schedulers": Mistake(
        each(pods(2), lambda _: None, lambda one: one["spec"].update(schedulerName="default-scheduler")),
        ("schedulerName differs: ", "default-scheduler (schedulers-worker-1)")),
    "priorities": Mistake(
        each(pods(2), lambda _: None, lambda one: one["spec"].update(priorityClassName="mistake-high")),
        ("priority differs: 0 (priorities-worker-0), 10 (", "one priorityClassName")),
    "no-group": Mistake(labelled()({POD_GROUP_LABEL: "NAME"}), ("PodGroup", "does not exist: create it")),
    "far-group": Mistake(in_group(None), ("/far-group does not exist: create it",)),
    "zero-group": Mistake(in_group(0), ("has minMember 0: it must be at least 1",)),
    "negative-group": Mistake(in_group(-1), ("has minMember -1: it must be at least 1",)),
    "two-runs": Mistake(two_runs, ("job0", "job1"), (EVENT, EXPLAIN)),
    "near": Mistake(pods(options={"near": "fulll"}), ("netgang.io/near: 'fulll'", "did you mean zone full?"), (EVENT,)),
    "weight": Mistake(pods(options={"weight": "9"}), ("netgang.io/weight", "may not set weights"), (EVENT,)),
    "selection": Mistake(pods(options={"selection": "best"}), ("'best' is not one of subset, paper, pack",), (EVENT,)),
    "zone-policy": Mistake(
        pods(options={"zone-policy": "any"}), ("netgang.io/zone-policy: 'any' is not one of required",), (EVENT,)),
    "ratios": Mistake(pods(options={"ratios": "20-40"}), ("is not three numbers such as 20:40:40",), (EVENT,)),
    "zonez": Mistake(pods(options={"zonez": "b"}), ("netgang.io/zonez", "did you mean netgang.io/zones?"), (EVENT,)),
    "label-name": Mistake(
        labelled()({GROUP_NAME_LABEL.replace("name", "nmae"): "NAME"}),
        ("nmae: did you mean label pod-group.scheduling.sigs.k8s.io/name?",), (EVENT,)),
    "label-prefix": Mistake(
        labelled()({GROUP_NAME_LABEL.replace("pod-group", "podgroup"): "NAME"}), ("did you mean label",), (EVENT,)),
    "option-as-label": Mistake(
        labelled()({"netgang.io/zones": "b"}), ("did you mean annotation netgang.io/zones?",), (EVENT,)),
    "scheduler": Mistake(pods(scheduler="net-gang"), ("schedulerName net-gang: did you mean netgang?",), (EVENT,)),
    "no-scheduler": Mistake(
        pods(scheduler="default-scheduler"), ("set schedulerName to netgang",), (EVENT,)),
}  # fmt: skip


def template(labels: Mapping[str, str], *, scheduler: str = "netgang", **metadata: Any) -> Make:
    """A Job as people write it."""

    def make(name: str, namespace: str) -> list[Object]:
        spec = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never", "schedulerName": scheduler}
        return [kind("batch/v1", "Job", name, namespace, spec={
            "template": {"metadata": {"labels": dict(labels), **metadata}, "spec": spec}})]  # fmt: skip

    return make


RIGHT = {GROUP_NAME_LABEL: "g", MIN_AVAILABLE_LABEL: "2"}

APPLIED: dict[str, Mistake] = {  # said by `kubectl apply` itself
    "a misspelt label": Mistake(
        template({GROUP_NAME_LABEL.replace("name", "nmae"): "g"}), ("netgang reads no label", "nmae")),
    "a misspelt annotation": Mistake(
        template(RIGHT, annotations={"netgang.io/zonez": "b"}), ("netgang reads no annotation netgang.io/zonez",)),
    "a scheduler that does not exist": Mistake(template(RIGHT, scheduler="net-gang"), ("schedulerName net-gang",)),
    "a priority class that does not exist": Mistake(
        pods(priority_class="hihg"), ("no PriorityClass with name hihg was found",)),
    "a PodGroup that needs no number": Mistake(in_group("two"), ("spec.minMember", "must be of type integer")),
}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A command of people that ends with another code than 0; `files`: option → what its file holds."""

    says: tuple[str, ...]
    words: tuple[str, ...]
    files: Mapping[str, object] = field(default_factory=dict)


def scheduler(change: Callable[[Any], Any]) -> dict[str, object]:
    """The installed configuration of kube-scheduler, changed."""
    config = yaml.safe_load(SECOND_SCHEDULER.read_text())
    change(config)
    return {"--scheduler-config": config}


def entry(number: int, **fields: Any) -> dict[str, object]:
    return scheduler(lambda config: config["extenders"][number].update(fields))


DOCTOR: Final = ("doctor", "--no-cluster")

COMMANDS: dict[str, Command] = {
    "no extender": Command(
        ("extender-missing", "netgang is never asked"), DOCTOR, scheduler(lambda config: config.pop("extenders"))),
    "httpTimeout too low": Command(("bind-timeout", "httpTimeout: 60s"), DOCTOR, entry(1, httpTimeout="5s")),
    "ignorable": Command(("extender-ignorable", "set ignorable: false"), DOCTOR, entry(0, ignorable=True)),
    "a wrong verb": Command(
        ("filterVerb is predicates", "set filterVerb: filter"), DOCTOR, entry(0, filterVerb="predicates")),
    "a wrong address": Command(
        ("http://netgang:80 does not lead to netgang",), DOCTOR,
        scheduler(lambda config: [one.update(urlPrefix="http://netgang:80") for one in config["extenders"]])),
    "another profile": Command(
        ("no profile is named netgang", "scheduler_names"), DOCTOR,
        scheduler(lambda config: config["profiles"][0].update(schedulerName="gang"))),
    "preemption on": Command(
        ("DefaultPreemption is on",), DOCTOR, scheduler(lambda config: config["profiles"][0].pop("plugins"))),
    "an unknown setting": Command(
        ("quue", "no such setting; did you mean queue?"), DOCTOR, {"--config": {"quue": {"order": "fifo"}}}),
    "a value out of range": Command(
        ("port = 99999", "less than or equal to 65535"), DOCTOR, {"--config": {"port": 99999}}),
    "a value that is none of the list": Command(
        ("queue.order = 'fif'", "must be 'weight'"), DOCTOR, {"--config": {"queue": {"order": "fif"}}}),
    "a gang that does not exist": Command(("nothing",), ("explain", "NAMESPACE/nothing", "--url", "URL")),
    "no connection": Command(("127.0.0.1:1",), ("queue", "--url", "http://127.0.0.1:1")),
}  # fmt: skip
