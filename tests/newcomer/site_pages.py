"""The pages beside README and the tutorial, in the order in which one site's people need them, with their tables.

netgang is installed with the chart, then used, then taken away; what follows needs a cluster without it.
"""

from collections.abc import Mapping
from typing import Any

from tests.newcomer.document import Walk
from tests.newcomer.page import Effect, Page
from tests.newcomer.walk import ROOT

MADDASH = "https://maddash.example.org/maddash"
FORWARDED = "kubectl -n netgang-system port-forward deploy/netgang 8889 &"
TEAM_A = "kubectl create namespace team-a --dry-run=client -o yaml | kubectl apply -f -"
GANG_JOB = "kubectl apply -f examples/gang-job.yaml"
_DOCKER = {
    "docker build …": "builds and pushes an image, without a container engine: tests/e2e/people/test_image.py runs the"
    " Dockerfile's steps"
}
_NO_GANG = "kubectl delete job resnet --ignore-not-found"
_NO_TESTPOINTS = (
    "kubectl delete --ignore-not-found -f examples/perfsonar/testpoint.yaml"  # no controller makes its pods here
)
_TEAM = "kubectl create namespace team --dry-run=client -o yaml | kubectl apply -f -"
_RESNET = "kubectl get pods -l pod-group.scheduling.sigs.k8s.io/name=resnet"
_STARTED = Effect("Running Running Running Running", f"{_RESNET} -o jsonpath='{{.items[*].status.phase}}'")
_LET_IN = Effect(
    "\n".join(["<none> node…"] * 4),
    f"{_RESNET} --no-headers -o custom-columns=GATES:.spec.schedulingGates[*].name,NODE:.spec.nodeName",
)
_GATED = Effect(
    "netgang.io/gang",
    "kubectl run probe --image=busybox:1.36 --dry-run=server -o jsonpath='{.spec.schedulingGates[*].name}'"
    " --labels=pod-group.scheduling.sigs.k8s.io/name=probe,pod-group.scheduling.sigs.k8s.io/min-available=1"
    """ --overrides='{"spec":{"schedulerName":"netgang"}}'""",
)
_POD_GROUP = (
    "echo '{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: resnet, namespace: team},"
    " spec: {minMember: 3}}' | kubectl apply -f -"
)
_STRANDED = """kubectl create namespace stranded
echo '
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: stranded}, spec: {schedulerName: netgang,
 containers: [{name: a, image: busybox}], schedulingGates: [{name: netgang.io/gang}, {name: example.org/theirs}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: two, namespace: stranded}, spec: {schedulerName: netgang,
 containers: [{name: a, image: busybox}], schedulingGates: [{name: netgang.io/gang}]}}' | kubectl apply -f -"""


def _annotation(name: str, value: str) -> Effect:
    escaped = name.replace(".", "\\.")
    return Effect(value, f"kubectl get node node1 -o jsonpath='{{.metadata.annotations.{escaped}}}'")


def _until(path: str, words: str) -> str:
    """Wait until netgang's document says these words: it takes a moment to see what has just been made."""
    return f"until curl -s http://127.0.0.1:8889{path} | grep '{words}' >/dev/null; do sleep 0.3; done"


def _walk(name: str, *sections: str, **tables: Mapping[str, Any]) -> Walk:
    return Walk(ROOT / name, sections=sections, page=Page(**tables))


INSTALLING = _walk(
    "docs/start/install.md",
    "Five lines",
    effects={
        "helm install netgang …": Effect(
            "registry.example.org/netgang:0.1.0",
            "kubectl -n netgang-system get deploy netgang -o jsonpath='{.spec.template.spec.containers[0].image}'",
        ),
        GANG_JOB: _STARTED,
        "netgang doctor": Effect("warning gate-policy-missing: …\n…"),  # five lines, and one thing to improve
    },
    ends={"netgang doctor": (1,)},
    left=_DOCKER,
)

HOW_TOS = (
    _walk(
        "docs/how-to/gates.md",
        files={"values.yaml": "gates:"},
        before={GANG_JOB: _NO_GANG},
        effects={
            "kubectl api-resources …": Effect("…\nmutatingadmissionpolicies admissionregistration.k8s.io/v1 …\n…"),
            "helm upgrade netgang …": _GATED,
            GANG_JOB: _LET_IN,
        },
        ends={"netgang doctor": (1, 0)},  # before there is a policy, and with it
    ),
    _walk(
        "docs/how-to/maddash.md",
        words={"node NODE": "node node1", "ps-lab-7.example.org": "node1", "ps-bw-7.example.org": "node1"},
        files={"settings.yaml": "# dashboards:", "values.yaml": "settings:\n"},
        effects={
            "kubectl annotate node NODE netgang.io/endpoint=…": _annotation(
                "netgang.io/endpoint", "ps-lab-7.example.org"
            ),
            "kubectl annotate node NODE netgang.io/endpoint-throughput=…": _annotation(
                "netgang.io/endpoint-throughput", "ps-bw-7.example.org"
            ),
            "helm upgrade --install …": Effect(
                f"…{MADDASH}…", "kubectl -n netgang-system get configmap netgang -o jsonpath='{.data}'"
            ),
        },
    ),
    _walk(
        "docs/how-to/pytorch-elastic.md",
        before={"kubectl create -f …": _TEAM, "netgang jobs …": FORWARDED},
        effects={
            "kubectl create -f …": Effect(
                "4", "kubectl -n team get pytorchjob gpt -o jsonpath='{.spec.pytorchReplicaSpecs.Worker.replicas}'"
            )
        },
    ),
    _walk(
        "docs/how-to/tfjob.md",
        before={
            "netgang jobs …": f"{FORWARDED}\nkubectl create -f examples/kinds/tfjob-elastic.yaml\n"
            + _until("/v1/jobs", "TFJob"),
            "kubectl -n team get podgroup resnet …": _POD_GROUP,
        },
        effects={"kubectl -n team get podgroup resnet …": Effect("3 …")},
    ),
    _walk(
        "docs/how-to/from-coscheduling.md",
        files={"settings.yaml": "zone_policy: preferred"},
        effects={
            "kubectl get podgroup -n team retrain": Effect("NAME …\nretrain …"),
            "kubectl label namespace team …": Effect(
                "true", "kubectl get namespace team -o jsonpath='{.metadata.labels.netgang\\.io/schedule}'"
            ),
            "kubectl get pods -A -o json | jq …": Effect("…\n… netgang\n…"),
        },
    ),
)

PAGES_OF_USE = (
    _walk(
        "docs/reference/extender.md",
        before={"kubectl get pod worker-0 …": "kubectl run worker-0 --image=busybox:1.36"},
        effects={
            "curl -s localhost:8889/v1/plan": Effect('{"version":…"waiting":…'),
            "kubectl get pod worker-0 …": Effect('{…"NodeNames"…'),
        },
    ),
    _walk("docs/explanation/repair.md"),
    _walk(
        "docs/how-to/site.md",
        words={"node NODE": "node node1 node2 node3 node4"},
        effects={
            "kubectl label node NODE …": Effect(
                "\n".join(f"node/node{number}" for number in range(1, 5)),
                "kubectl get nodes -l netgang.io/testpoint=true -o name",
            ),
            "kubectl -n netgang-perfsonar create configmap …": Effect(
                "configmap/testpoint-mesh\ndaemonset.apps/testpoint",
                "kubectl -n netgang-perfsonar get configmaps,daemonsets -o name | grep testpoint",
            ),
        },
    ),
    _walk(
        "docs/how-to/tls.md",
        effects={
            "kubectl -n netgang-system create secret generic netgang-tls …": Effect(
                "netgang-tls Opaque 3 …", "kubectl -n netgang-system get secret netgang-tls --no-headers"
            ),
        },
    ),
    _walk(
        "docs/how-to/cli.md",
        before={
            "netgang queue": f"{FORWARDED}\nexport NETGANG_URL=http://127.0.0.1:8889",
            "kubectl netgang explain …": f"{TEAM_A}\n{GANG_JOB} -n team-a\n" + _until("/v1/queue", "team-a/resnet"),
        },
        effects={
            "kubectl -n netgang-system create rolebinding researchers-ask …": Effect(
                "yes",
                "kubectl -n netgang-system auth can-i get services/netgang:8889 --subresource=proxy"
                " --as=somebody --as-group=researchers",
            ),
            "kubectl netgang explain …": Effect("…team-a/resnet…\n…"),
        },
    ),
    _walk(
        "docs/how-to/alerts.md",
        effects={
            "kubectl -n netgang-system get pods …": Effect("NAME …\nnetgang-0 … Running … leader"),
            "kubectl -n netgang-system get lease …": Effect("…\n holderIdentity: …\n…"),
        },
    ),
)

TAKING_AWAY = _walk(
    "docs/start/install.md",
    "Uninstall",
    effects={
        "helm uninstall …": Effect(
            "No resources found in netgang-system namespace.", "kubectl -n netgang-system get deployments,leases"
        ),
    },
)

WITHOUT_IT = (
    _walk(
        "docs/how-to/operations.md",
        before={"kubectl get pods -A -o json | jq …": _STRANDED},
        effects={
            "kubectl get pods -A -o json | jq …": Effect(
                '[{"name":"example.org/theirs"}]',
                "kubectl -n stranded get pods -o jsonpath='{.items[*].spec.schedulingGates}'",
            )
        },
    ),
    _walk(
        "docs/how-to/opensearch.md",
        "1. An account and its secret",
        before={"kubectl create namespace netgang-system": "echo word > archive-password; echo cert > archive-ca.pem"},
        effects={
            "kubectl -n netgang-system create secret …": Effect(
                "word",
                "kubectl -n netgang-system get secret netgang-archive -o jsonpath='{.data.password}' | base64 -d",
            )
        },
    ),
    _walk(
        "README.md",
        "In a cluster",
        before={GANG_JOB: f"{_NO_GANG}\n{_NO_GANG} -n team-a\n{_NO_TESTPOINTS}"},
        effects={GANG_JOB: _STARTED},
        left=_DOCKER,
    ),
)

PAGES = (INSTALLING, *HOW_TOS, *PAGES_OF_USE, TAKING_AWAY, *WITHOUT_IT)  # in the order of typing
