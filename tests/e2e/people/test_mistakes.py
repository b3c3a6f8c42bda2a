"""Each mistake that people make is answered, with the way out of it where there is one.

Within six seconds of its apply (up to four times as long on a slow machine), in whichever of explain, Event and
command is first. A row takes no room that another one wants. `…` in a sentence stands for any characters.
"""

import asyncio
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from lab.testbed.api import Object
from lab.testbed.errors import ControlPlaneError
from lab.testbed.objects import GROUP_NAME_LABEL, MIN_AVAILABLE_LABEL, POD_GROUP_LABEL, node, pod_group
from lab.testbed.parts.service import ROOT
from lab.testbed.processes.pace import LIVENESS_S
from lab.testbed.processes.stages import DELETE_AFTER, HOLD
from tests.e2e.objects import gang, indexed_job, kind, needs_anchor, shuns_gangs, stateful_set
from tests.e2e.site import site_on
from tests.e2e.stage import Stage, document, say

SOON_S, AT_ONCE = 6.0, 4  # what is asked at once is load, too
PLACES = {"a": 3, "b": 2, "cordoned": 2, "tainted": 2, "full": 1, "held": 1, "ends": 2, "extra": 1, "zoneless": 1}
ML = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
SOONER = {"admit_timeout_s": 3.0}  # not a minute: what kube-scheduler refuses unasked is told then (docs/safety.md S25)
Make = Callable[[str, str], list[Object]]  # name of the gang, its namespace → what is applied


def at(pool: str) -> dict[str, Any]:
    return {"nodeSelector": {"pool": pool}}


def _node(pool: str, number: int) -> Object:
    zone = "" if pool == "zoneless" else pool
    made = node(f"{pool}{number}", zone=zone, gpu=int(pool == "a"), labels={"pool": pool, "disk": "ssd"})
    return {**made, "spec": {"unschedulable": pool == "cordoned"}}


site = site_on([_node(pool, number) for pool, count in PLACES.items() for number in range(count)], SOONER)


def pods(size: int = 1, *, spec: Mapping[str, Any] | None = None, **how: Any) -> Make:
    """A gang whose pods have these fields of their spec, and annotations netgang.io/…"""
    noted = {f"netgang.io/{name}": text for name, text in how.pop("options", {}).items()}

    def make(name: str, namespace: str) -> list[Object]:
        made = gang(name, size, namespace, **{"cpu": "100m", "annotations": noted, **how})
        for one in made:
            one["spec"] |= {"tolerations": [], **(spec or {})}
        return made

    return make


def labelled(labels: Mapping[str, str], *, least: int | None = None, **how: Any) -> Make:
    """A pod with other labels than a gang's (NAME: the gang's name), and a PodGroup that needs `least`."""

    def make(name: str, namespace: str) -> list[Object]:
        [made] = pods(**how)(name, namespace)
        made["metadata"]["labels"] = {key: text.replace("NAME", name) for key, text in labels.items()}
        return [made] if least is None else [pod_group(name, least, namespace=namespace), made]

    return make


def changed(make: Make, change: Callable[[Object], object], *, first: int = 0) -> Make:
    """The objects, from the `first` on changed."""

    def those(name: str, namespace: str) -> list[Object]:
        made = make(name, namespace)
        for one in made[first:]:
            change(one)
        return made

    return those


def jobs(*sizes: int, spec: Mapping[str, Any] | None = None, **how: Any) -> Make:
    """Jobs that are one gang."""

    def make(name: str, namespace: str) -> list[Object]:
        names = [name] if len(sizes) == 1 else [f"{name}-{number}" for number in range(len(sizes))]
        fields = {"gang": name, "gated": False, "cpu": "100m", **how}
        made = [indexed_job(one, namespace, size, **fields) for one, size in zip(names, sizes, strict=True)]
        for one in made:
            one["spec"]["template"]["spec"] |= spec or {}
        return made

    return make


def on_the_job(one: Object) -> None:
    template = one["spec"]["template"]["metadata"]
    one["metadata"]["labels"], template["labels"] = template["labels"], {"app": "train"}


def asking(resource: str) -> Make:
    container = {"name": "main", "image": "x", "resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}
    return pods(spec={"containers": [container]})


def chief_and_workers(name: str, namespace: str) -> list[Object]:
    """The namespace's LimitRange forbids what the workers ask for."""
    chief, workers = jobs(1, 2, least=3)(name, namespace)
    workers["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "24Gi"
    return [chief, workers]


def replicas(least: int) -> Make:
    return lambda name, namespace: [stateful_set(name, namespace, least, pods()(name, namespace)[0]["spec"])]


BEFORE: dict[str, tuple[str, Make, int]] = {  # mistake → what runs before: its name, its objects, how many pods
    "rolls": ("rolls", replicas(3), 3),
    "ends": ("ends", pods(2, spec=at("ends"), cpu="5", annotations={DELETE_AFTER: "30s"}), 2),  # one is then deleted
    "held": ("holder", jobs(1, cpu="8", spec=at("held")), 1),
    "extra": ("extra", pods(spec=at("extra"), cpu="5"), 1),
}
CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "datta"}}]}
PORT = {"containers": [{"name": "main", "image": "x", "ports": [{"containerPort": 8080, "hostPort": 8080}]}]}
UNREADABLE = {"digits": {"cpu": "1" * 1_000_000}, "fraction": {"cpu": "0." + "1" * 1_000_000}}  # PodGroup: minResources
UNREADABLE |= {"exponent": {"cpu": "1e" + "9" * 1000}, "many": {f"example.com/r{at}": "1" for at in range(20_000)}}
NMAE, LEAST = GROUP_NAME_LABEL.replace("name", "nmae"), MIN_AVAILABLE_LABEL
UNCOUNTED = ("kube-scheduler or another extender counts it. kube-scheduler: 0/… Insufficient … Correct its name, have "
    "what offers it installed on nodes, or wait for room.")  # fmt: skip
VOLCANO = {"scheduling.k8s.io/group-name": "exp/7_B", "scheduling.k8s.io/group-min-member": "2"}

MISTAKES: dict[str, tuple[Make, str]] = {  # mistake → what is applied; what is said, and the way out
    # those of version 0.1
    "cordoned": (pods(spec=at("cordoned")), "2 of 2 nodes of zone cordoned are cordoned; zone cordoned has room for 0 "
        "of 1 pod (cpu 100m, memory 64Mi). Run `kubectl uncordon cordoned0`."),
    "tainted": (pods(spec=at("tainted")), "2 of 2 nodes … have taint dedicated=ml:NoSchedule, … Add a toleration of "
        "dedicated=ml:NoSchedule to the pod template, …"),
    "down": (pods(spec=at("down")), "1 of 1 node of zone down is not ready; … See why down0 is not ready (kubectl …)."),
    "label-value": (pods(spec={"nodeSelector": {"disk": "sdd"}}), "No node … disk=sdd, … (did you mean disk=ssd?). …"),
    "label-key": (pods(spec={"nodeSelector": {"dissk": "ssd"}}), "No node … dissk=ssd, … (did you mean disk?). …"),
    "zoneless": (pods(spec=at("zoneless")), "No node of zones … has label pool=zoneless, …, or set annotation "
        "netgang.io/zone-policy to preferred."),
    "gpus": (asking("nvidia.com/gpus"), f"No node's … nvidia.com/gpus (did you mean nvidia.com/gpu?): {UNCOUNTED}"),
    "too-large": (pods(cpu="64"), "Each pod asks for cpu 64; the largest node … has 8. Ask for at most 8 cpu a pod."),
    "too-wide": (pods(4, cpu="5"), "Even empty, zone a has room for 3 of 4 pods (cpu 5, memory 64Mi each); … Set "
        "annotation netgang.io/zone-policy to preferred, or lower min-available to 3."),
    "no-room": (pods(cpu="1500m", spec=at("full")), "Too little room is free: zone full has room for 0 of 1 pod (cpu "
        "1.5, memory 64Mi), 1.5 more cpu would do."),
    "no-zone": (pods(options={"zones": "tainte"}), "It may use no zone: … (did you mean tainted?). Remove …"),
    "closed-zone": (pods(cpu="1500m", options={"zones": "full"}), "Annotation netgang.io/zones=full leaves out zone …, "
        "which has room for its pod; … Add … to annotation netgang.io/zones, or remove it."),
    "claim": (pods(spec=CLAIM), '…persistentvolumeclaim "datta" not found. Create the claim, or correct its name …'),
    "gate": (pods(gates=["kueue.x-k8s.io/admission"]), "1 pod of 1 waits for another controller to remove scheduling "
        "gate kueue.x-k8s.io/admission."),
    "apart": (changed(pods(4, spec=at("b")), partial(shuns_gangs, gangs=["apart"])),
        "kube-scheduler said last: …didn't match pod anti-affinity rules, …"),  # the others are held for 25 s
    "port": (pods(4, spec=PORT), "Each pod has host port 8080, so one fits a node, … Drop hostPort …"),
    "too-few": (pods(2, least=5), "2 of 5 pods exist; 3 more must exist before it starts. … Lower min-available to 2."),
    "quota": (pods(least=2, gpu=1), "1 of 2 pods exist, and the namespace's quota forbids more: ResourceQuota team "
        "leaves 0 of requests.nvidia.com/gpu, and a member asks for 1. Have the ResourceQuota raised, or …"),
    "minimum-word": (labelled({GROUP_NAME_LABEL: "NAME", LEAST: "four"}), "…'four': it must be a whole number …"),
    "no-minimum": (labelled({GROUP_NAME_LABEL: "NAME"}), f"…{LEAST} is missing: set it to how many pods …"),
    "two-minimums": (changed(pods(2), lambda pod: pod["metadata"]["labels"].update({LEAST: "3"}), first=1),
        "…different min-available: 2 (two-minimums-worker-0), 3 (two-minimums-worker-1); make them equal…"),
    "two-names": (labelled({POD_GROUP_LABEL: "NAME", GROUP_NAME_LABEL: "x"}), "… different groups: keep one of them…"),
    "schedulers": (changed(pods(2), lambda pod: pod["spec"].update(schedulerName="default-scheduler"), first=1),
        "…schedulerName differs: netgang (schedulers-worker-0), default-scheduler (…); make them equal…"),
    "zero-group": (labelled({POD_GROUP_LABEL: "NAME"}, least=0), "… has minMember 0: it must be at least 1…"),
    "two-runs": (jobs(1, 1), "Gang NS/two-runs is run by Job two-runs-…; the pods of Job two-runs-… wait until its "
        "pods have ended. To let both run side by side give each a gang name of its own; …"),
    "near": (pods(options={"near": "fulll"}), "netgang.io/near: 'fulll' … did you mean zone full?…"),
    "weight": (pods(options={"weight": "9"}), "netgang.io/weight… may not set weights…"),
    "selection": (pods(options={"selection": "best"}), "netgang.io/selection: 'best' is not one of subset, paper, …"),
    "zone-policy": (pods(options={"zone-policy": "any"}), "netgang.io/zone-policy: 'any' is not one of required, …"),
    "ratios": (pods(options={"ratios": "20-40"}), "netgang.io/ratios: … is not three numbers such as 20:40:40…"),
    "zonez": (pods(options={"zonez": "b"}), "netgang.io/zonez: no such annotation; did you mean netgang.io/zones?"),
    "label-name": (labelled({NMAE: "NAME"}), f"…abel {NMAE}: did you mean label {GROUP_NAME_LABEL}?"),
    "option-as-label": (labelled({"netgang.io/zones": "b"}), "…: did you mean annotation netgang.io/zones?"),
    "net-gang": (pods(scheduler="net-gang"), "The gang's pods have schedulerName net-gang: did you mean netgang?"),
    "no-scheduler": (pods(scheduler="default-scheduler"), "… schedulerName default-scheduler instead of netgang"),
    # those that strangers met: silence, or advice that was false
    "on-the-job": (changed(jobs(4), on_the_job), "…move the labels to spec.template.metadata.labels, and create the "
        "Job again…"),
    "min6": (jobs(4, least=6), "…Job min6 makes 4 pods, and the minimum is 6: lower the minimum to 4, or have 6 …"),
    "two-zones": (pods(20, cpu="5"), "Even empty, zone a has room for 3 of 20 pods (cpu 5, memory 64Mi each); … is "
        "not ready. Lower min-available to 3."),
    "shut": (pods(3, cpu="5", spec=at("cordoned")), "2 of 2 nodes of zone cordoned are cordoned; zone cordoned has "
        "room for 0 of 3 pods (cpu 5, memory 64Mi each)."),
    "held": (pods(cpu="1500m", spec=at("held")), "Too little room is free: zone held has room for 0 of 1 pod (cpu 1.5, "
        "memory 64Mi), 1.5 more cpu would do."),
    "netgnag": (jobs(1, spec={"schedulerName": "netgnag"}), "netgang plans no gang of NS/netgnag: 1 pod with "
        "schedulerName netgnag instead of netgang"),
    "nosuchgroup": (labelled({POD_GROUP_LABEL: "NAME"}), "…PodGroup NS/nosuchgroup does not exist: create it, …"),
    "rolls": (replicas(6), "3 of 6 pods exist; 3 more must exist before it starts. See why StatefulSet rolls has "
        "not made them (kubectl describe: quota, admission). Lower min-available to 3."),
    "leader": (changed(pods(2), needs_anchor), "Gang NS/leader was admitted and did not come to bind in time: "
        "kube-scheduler says of NS/leader-worker-…: 0/… didn't match pod affinity rules…; tried again in …"),
    "gpumem": (asking("example.com/gpumem"), f"No node's allocatable shows example.com/gpumem: {UNCOUNTED}"),
    "exp": (labelled({}, annotations=VOLCANO), "1 of 2 pods exist; 1 more must exist before it starts. See why the job "
        "has not made them (kubectl describe: quota, admission). Lower its minimum to 1."),
    "ends": (pods(first=2, spec=at("ends"), least=2, cpu="5"), "Pod ends-worker-1 is lost: it was removed. Pod "
        "ends-worker-1 on node ends… still ends."),
    "train": (chief_and_workers, "1 of 3 pods exist, and Job train-1 has made 0 of 2 pods; … See why Job train-1 has "
        "not made them …"),
    "extra": (pods(first=1, least=1, cpu="5"), "The minimum runs, and zone extra has no room for 1 pod beyond it. "
        "There is room in the nodes without a zone, zone a, …, and the gang stays where its members are."),
}  # fmt: skip
COMMANDS: dict[str, tuple[str, str]] = {  # mistake → command, what it prints
    "no such namespace": ("queue -n nosuch", "…no gang of namespace nosuch is known; namespaces with gangs: …"),
    "no such job": ("explain NS/two-rnus", "…no gang, job or pod NS/two-rnus is known; did you mean two-runs …?"),
    "no such value": ("what-if --set queue.order=fif", "…queue.order = 'fif': must be 'weight' or …"),
}


@pytest.mark.timeout(240)
async def test_each_mistake_is_answered_soon_with_the_way_out(site: Stage) -> None:
    await furnish(site)
    places, took_s = asyncio.Semaphore(AT_ONCE), dict[str, float]()

    async def timed(name: str, answered: Callable[[], Awaitable[float]]) -> None:
        async with places:
            took_s[name] = await answered()

    rows = {name: partial(applied, site, name, *row) for name, row in MISTAKES.items()}
    rows |= {name: partial(printed, site, *row) for name, row in COMMANDS.items()}
    wrong = await asyncio.gather(*(timed(*row) for row in rows.items()), return_exceptions=True)
    say(", ".join(f"{name} {took_s[name]:.1f} s" for name in sorted(took_s, key=lambda one: -took_s[one])))
    assert not any(wrong), "\n".join(repr(one) for one in wrong if one)
    assert await site.bound("on-the-job") == {}
    queue = await document(site.service, "/v1/queue")
    assert [one.get("rank") for one in queue["gangs"] if "min6" in one["gang"]] == [None]  # ahead of nobody
    await site.until_events("Unreadable", lambda found: found.keys() == {*UNREADABLE})
    ready = await document(site.service, "/readyz")
    assert (ready["ready"], ready["detail"]["sync"]["podgroups"]["unreadable_now"]) == (True, len(UNREADABLE)), ready
    await site.until_bound("ends-worker-2", 1)  # in the room of the pod that ended


async def furnish(site: Stage) -> None:
    """What the rows need besides nodes: a kubelet that never answered, taints, a full node, a quota and a limit."""
    api, team = site.api, site.namespace
    silent, most, hard = _node("down", 0), {"memory": "20Gi"}, {"requests.nvidia.com/gpu": "1"}
    silent["metadata"]["annotations"] = {HOLD: "node-initialize"}
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated"}]
    limit = {"type": "Container", "max": most, "default": most, "defaultRequest": {"memory": "64Mi"}}
    quota = kind("v1", "ResourceQuota", "team", team, spec={"hard": hard})
    limits = kind("v1", "LimitRange", "small", team, spec={"limits": [limit]})
    groups = [pod_group(name, 1, namespace=team) for name in UNREADABLE]
    large = [one | {"spec": one["spec"] | {"minResources": UNREADABLE[one["metadata"]["name"]]}} for one in groups]
    await api.create_all([silent, quota, limits, *large, site.pod("filler", on="full0", cpu="8")])
    status = {"hard": hard, "used": {"requests.nvidia.com/gpu": "0"}}  # as kube-controller-manager writes it
    await api.patch("ResourceQuota", "team", {"status": status}, namespace=team, subresource="status")
    for number in range(PLACES["tainted"]):
        await api.patch("Node", f"tainted{number}", {"spec": {"taints": [ML]}})


async def applied(site: Stage, name: str, make: Make, says: str) -> float:
    """Seconds from its apply until it is said."""
    if name in BEFORE:
        there, before, count = BEFORE[name]
        await site.api.create_all(before(there, site.namespace))
        await site.until_running(there, count)
    if name == "ends":
        await site.api.delete("Pod", "ends-worker-1", namespace=site.namespace, grace_s=30)
    objects, began_s = make(name, site.namespace), time.monotonic()
    await site.api.apply(objects)
    read, right = partial(heard, site, name), partial(has, says.replace("NS", site.namespace))
    await site.api.until(read, right, what=f"{name}: {says}", limit_s=SOON_S)
    return time.monotonic() - began_s


async def printed(site: Stage, command: str, says: str) -> float:
    began_s, words = time.monotonic(), command.replace("NS", site.namespace).split()
    argv = (sys.executable, "-m", "cli.main", *words, "--url", site.service.url)
    process = await asyncio.create_subprocess_exec(*argv, stderr=asyncio.subprocess.PIPE, cwd=ROOT)
    async with asyncio.timeout(LIVENESS_S):
        text = (await process.communicate())[1].decode().strip()
    if process.returncode != 2 or not has(says.replace("NS", site.namespace), [text]):
        raise ControlPlaneError(f"{command} ends with {process.returncode}: {text}")
    return time.monotonic() - began_s


async def heard(site: Stage, name: str) -> list[str]:
    """What explain answers, and the notes of netgang's Events about these objects."""
    found = await site.explain(site.service, quote("exp/7_B" if name == "exp" else name))
    cause = found.get("cause") or {}
    texts = [found.get("detail", ""), f"{cause.get('message', '')} {cause.get('suggestion', '')}".strip()]
    texts += [*found.get("problems", ()), *found.get("notes", ()), *(one["why"] for one in found.get("members", ()))]
    events = await site.api.list_all("Event", namespace=site.namespace)
    ours = [one for one in events if one.get("reportingComponent") == "netgang.io/extender"]
    notes = [one["message"] for one in ours if f"{one['involvedObject']['name']}-".startswith(f"{name}-")]
    return [*texts, found.get("repair") or "", *notes]


def has(says: str, texts: Iterable[str]) -> bool:
    return any(re.fullmatch(".*".join(map(re.escape, says.split("…"))), text) for text in texts)
