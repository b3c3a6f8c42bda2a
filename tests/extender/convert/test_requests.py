"""What a pod takes from its node, against kube-scheduler's own code and by tables."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import pod_from_json
from scoring.model.pod import PODS

GOLDEN = Path(__file__).parents[2] / "fixtures" / "requests" / "kubernetes-1.36.3.jsonl"


def requests(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    raw = json.dumps({"metadata": {"name": "p"}, "spec": spec, "status": status or {}}).encode()
    amounts = {str(name): value for name, value in pod_from_json(raw).requests}
    assert amounts.pop(PODS) == 1
    return amounts


def asks(name: str = "c", *, limits: dict[str, Any] | None = None, always: bool = False, **quantities: Any) -> Any:
    policy = {"restartPolicy": "Always"} if always else {}
    return {"name": name, "resources": {"requests": quantities, "limits": limits}} | policy


def test_kubernetes_counts_the_same() -> None:
    """160 random pods (sidecars, pod-level resources, resizes, odd quantities) count as Kubernetes 1.36.3 itself does.

    The expected numbers are from SetObjectDefaults_Pod and resource.PodRequests, see generate.go beside the file.
    """
    cases = {case["pod"]["metadata"]["name"]: case for case in map(json.loads, GOLDEN.read_text().splitlines())}
    found = {name: requests(case["pod"]["spec"], case["pod"]["status"]) for name, case in cases.items()}
    assert found == {name: case["requests"] for name, case in cases.items()}
    assert len(cases) == 160


ONE_CPU, TINY = {"containers": [asks(cpu="1")]}, asks(cpu="0.1m")
GPU: dict[str, Any] = {"nvidia.com/gpu": "1"}
MANY: dict[str, Any] = {f"r{n}": "1" for n in range(65)}
BOTH, SIDECAR, OVERHEAD = asks(cpu="1", memory="7", **GPU), asks(cpu="500m", always=True), {"cpu": "250m"}
SPECS = {  # case, of those that the 160 pods do not name: (expected requests, pod spec)
    "no containers": ({}, {"containers": None}),
    "a limit without a request counts": ({"cpu": 100}, {"containers": [asks(limits={"cpu": "100m"})]}),
    "a sidecar adds to later init containers": ({"cpu": 2500}, ONE_CPU | {"initContainers": [SIDECAR, asks(cpu="2")]}),
    "and nothing to earlier ones": ({"cpu": 2000}, ONE_CPU | {"initContainers": [asks(cpu="2"), SIDECAR]}),
    "pod-level requests replace the sum, for cpu and memory only; overhead comes on top": (
        {"cpu": 4250, "memory": 7, "nvidia.com/gpu": 1},
        {"containers": [BOTH], "resources": asks(cpu="4", **GPU)["resources"], "overhead": OVERHEAD},
    ),
    "a pod-level limit counts where no container asks": (
        {"cpu": 1000, "memory": 9},
        ONE_CPU | {"resources": {"limits": {"cpu": "2", "memory": "9"}}},
    ),
    "fractions of a millicore round up one by one": ({"cpu": 2}, {"containers": [TINY, TINY]}),
    "fractions of a byte round up after the sum": ({"memory": 1}, {"containers": [asks(memory="500m")] * 2}),
    "numbers are read like text": ({"cpu": 1500, "memory": 3}, {"containers": [asks(cpu=1.5, memory=3)]}),
}


@pytest.mark.parametrize(("want", "spec"), SPECS.values(), ids=SPECS)
def test_requests(want: dict[str, int], spec: dict[str, Any]) -> None:
    assert want == requests(spec)


def test_a_resize_counts_old_and_new() -> None:
    status: dict[str, Any] = {"containerStatuses": [asks(cpu="3")]}
    assert requests(ONE_CPU, status) == {"cpu": 3000}
    for reason, counted in (("Infeasible", 3000), ("Deferred", 8000)):
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
        assert requests({"containers": [asks(cpu="8")]}, status) == {"cpu": counted}


WRONG: dict[str, dict[str, Any]] = {  # what the message must hold: pod spec
    "spec.containers[1].resources.requests: cpu: 'two'": {"containers": [asks(), asks(cpu="two")]},
    "spec.containers[0].resources.requests: memory: '-1' is negative": {"containers": [asks(memory="-1")]},
    "spec.containers[0].resources.limits: cpu: ''": {"containers": [asks(limits={"cpu": ""})]},
    "spec.initContainers[0].resources.requests: cpu": {"initContainers": [asks(cpu="1X")]},
    "spec.overhead: cpu: 'x'": {"overhead": {"cpu": "x"}},
    "spec.resources.requests: cpu: 'x'": {"resources": {"requests": {"cpu": "x"}}},
    "requests for more than 64": {"containers": [asks(**MANY)]},
}


@pytest.mark.parametrize(("words", "spec"), WRONG.items(), ids=WRONG)
def test_a_wrong_quantity_is_named(words: str, spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^Pod default/p: .*" + re.escape(words)):
        requests(spec)


@pytest.mark.parametrize("most", ["9E", "1e300", "9223372036854775807"])
def test_a_limit_that_is_never_reached_hides_no_pod(most: str) -> None:
    """kube-scheduler places such a pod by its requests: unreadable, it would be load that is not seen."""
    limited = asks(cpu="2", memory="1Ki", limits={"cpu": most, "memory": most})
    assert requests({"containers": [limited]}) == {"cpu": 2000, "memory": 1024}
    assert requests({"containers": [asks(cpu=most)] * 3}) == {"cpu": 2**52}


@given(st.lists(st.integers(0, 4000), max_size=4), st.lists(st.tuples(st.integers(0, 4000), st.booleans()), max_size=4))
def test_initialisation_never_needs_more_than_is_counted(running: list[int], inits: list[tuple[int, bool]]) -> None:
    """At each moment of a pod's life, what runs then is within its request; and one moment uses all of it."""
    spec = {
        "containers": [asks(cpu=f"{m}m") for m in running],
        "initContainers": [asks(cpu=f"{m}m", always=sidecar) for m, sidecar in inits],
    }
    moments = [sum(running) + sum(m for m, sidecar in inits if sidecar)]
    for i, (m, _) in enumerate(inits):
        moments.append(m + sum(other for other, sidecar in inits[:i] if sidecar))
    assert max(moments) == requests(spec).get("cpu", 0)
