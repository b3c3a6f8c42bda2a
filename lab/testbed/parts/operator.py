"""Kubeflow's training operator as a part of the cluster, and one-line jobs for it.

Why the real one: which pod leaves when a job shrinks, what counts as failed and what happens to the PodGroup are its
code, and an imitation would have the faults that its author did not know of.
Rule: it runs out of the cluster with its gang scheduling on, so that it makes PodGroups and gives pods our scheduler's
name. It waits for its webhook's certificate in a directory whose name cannot be configured, so one runs at a time on a
computer. Its validating webhook is there without rules: API servers do not call it.
"""

from collections.abc import Sequence
from pathlib import Path

from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import namespace as namespace_object
from lab.testbed.objects import pod
from lab.testbed.parts.carried import carried
from lab.testbed.processes.network import LOOPBACK, free_ports
from lab.testbed.processes.process import Child
from lab.testbed.processes.stages import DELETE_AFTER
from lab.testbed.programs.build import ensure_program

OPERATOR = "training-operator"
CRDS = "training-crds"
_NAMESPACE = "kubeflow"
_SECRET = "training-operator-webhook-cert"  # noqa: S105 - the name of a Secret
_WEBHOOK = "validator.training-operator.kubeflow.org"
_READ_BY_ROTATOR = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - a constant of the operator's


async def start_operator(cluster: Cluster) -> Child:
    """Start the operator for TFJobs, its kinds installed, and wait until it is ready; it stops with the cluster.

    Takes about ten seconds, minutes when the program has to be built.
    """
    program = ensure_program(OPERATOR)
    await cluster.install(CRDS)
    async with cluster.api() as api:
        await _prepare(api)
        (port, webhook_port) = free_ports(2)
        (_READ_BY_ROTATOR / "tls.crt").unlink(missing_ok=True)  # an earlier one's: it would not wait for its own
        temporary = cluster.directory / "operator-tmp"
        temporary.mkdir(exist_ok=True)
        mounted = (temporary / "k8s-webhook-server" / "serving-certs", _READ_BY_ROTATOR)  # the second: waited for
        async with carried(api, _SECRET, namespace=_NAMESPACE, to=mounted):
            return await cluster.start_part(
                OPERATOR,
                [
                    program,
                    f"--kubeconfig={cluster.kubeconfig()}",
                    "--gang-scheduler-name=netgang",
                    "--enable-scheme=tfjob",
                    "--metrics-bind-address=0",
                    f"--health-probe-bind-address={LOOPBACK}:{port}",
                    f"--webhook-server-port={webhook_port}",
                    "--controller-threads=4",
                ],
                ready_url=f"http://{LOOPBACK}:{port}/readyz",
                env={"TMPDIR": str(temporary)},
            )


def _webhook(name: str, client: Object, **more: object) -> Object:
    one = {"name": name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client, **more}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": name}, "webhooks": [one]}


def tf_job(
    name: str,
    *,
    workers: int,
    least: int | None = None,
    namespace: str = "default",
    cpu: str = "1",
    dynamic: bool = True,
    gates: Sequence[str] = (),
) -> Object:
    """A TFJob of one ps, whose gang needs `least` pods (ps included; default: all), whose pods take a second to end.

    `dynamic`: workers may come and go (`enableDynamicWorker`).
    """
    made = pod("unused", cpu=cpu, gates=gates)["spec"]
    del made["schedulerName"]  # which is the operator's to write
    containers = [{**made["containers"][0], "name": "tensorflow"}]
    spec = {**made, "containers": containers, "terminationGracePeriodSeconds": 30}
    template = {"metadata": {"annotations": {DELETE_AFTER: "1s"}}, "spec": spec}
    policy = {"minAvailable": 1 + workers if least is None else least}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "enableDynamicWorker": dynamic,
            "runPolicy": {"cleanPodPolicy": "None", "schedulingPolicy": policy},
            "tfReplicaSpecs": {
                role: {"replicas": count, "restartPolicy": "OnFailure", "template": template}
                for role, count in {"PS": 1, "Worker": workers}.items()
            },
        },
    }


def condition(job: Object, kind: str) -> bool:
    """Whether a job has the condition `kind` with status True."""
    held = job.get("status", {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in held)


async def _prepare(api: Api) -> None:
    """What the operator wants to find: its namespace, an empty Secret, and a webhook to write its authority to."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": _NAMESPACE}}
    asked = {"service": {"name": OPERATOR, "namespace": _NAMESPACE, "path": "/"}}
    hook = _webhook(_WEBHOOK, asked, failurePolicy="Ignore")
    await api.apply([namespace_object(_NAMESPACE), secret, hook])
