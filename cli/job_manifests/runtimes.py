"""Where the runtime of a TrainJob is: in the manifest, else in the saved cluster or at the API server that is asked.

Rule: no cluster is asked that the command line does not name, because its runtime may be another one: at an address of
netgang (--url) the runtime must be in the manifest.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from cli.job_manifests.manifest import Object
from cli.job_manifests.pods import called, mapping
from cli.service_options import Reach, run
from extender.errors import ApiError, ConfigError

_GROUP: Final = "/apis/trainer.kubeflow.org/v1alpha1"
_PLURALS: Final = {"ClusterTrainingRuntime": "clustertrainingruntimes", "TrainingRuntime": "trainingruntimes"}
RUNTIME_KINDS: Final = frozenset(_PLURALS)


class RuntimeRef(NamedTuple):
    """Which runtime a TrainJob names; a cluster's is in no namespace."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Runtimes beside those of the manifest; `without`: what to say and do when one is not there either."""

    find: Callable[[RuntimeRef], Object | None]
    without: str


ELSEWHERE_NONE: Final = Elsewhere(
    lambda _: None,
    "is not in the manifest: add it, as `kubectl get {plural} {name} -o yaml` prints it; with --kubeconfig or "
    "--context it is read from the API server",
)


def runtime_of(one: Object, listed: Iterable[Object], elsewhere: Elsewhere) -> Object:
    """The runtime of this TrainJob. Errors: ConfigError if it is nowhere; those of asking."""
    given = mapping(one, "spec", "runtimeRef")
    kind = str(given.get("kind") or "ClusterTrainingRuntime")
    if kind not in RUNTIME_KINDS:
        raise ConfigError(f"{called(one)}: runtimeRef.kind {kind} is not read, but {' and '.join(_PLURALS)}")
    ref = RuntimeRef(kind, one["metadata"]["namespace"] if kind == "TrainingRuntime" else "", str(given["name"]))
    found = next((each for each in listed if _ref(each) == ref), None) or elsewhere.find(ref)
    if found is None:
        said = elsewhere.without.format(plural=_PLURALS[kind], name=ref.name)
        raise ConfigError(f"{called(one)}: its {kind} {ref.name} {said}")
    return found


def of_file(cluster: Path) -> Elsewhere:
    """Those of a saved cluster, which is read when the first is looked for. Errors of `find`: ConfigError."""

    def find(ref: RuntimeRef) -> Object | None:
        from extender.convert.clusterfile import read_cluster

        if str(cluster) == "-":
            return None  # standard input is read once, for the cluster itself
        others = (msgspec.json.decode(one.raw) for one in read_cluster(cluster, zone_label="", keep={ref.kind}).others)
        return next((one for one in others if _ref(one) == ref), None)

    without = (
        f"is neither in the manifest nor in {cluster}: add it to either, as `kubectl get {{plural}} {{name}}` has it"
    )
    return Elsewhere(find, without)


def of_api_server(reach: Reach) -> Elsewhere:
    """Those at the API server by which netgang is asked. Errors of `find`: ConfigError, ApiError and its like."""

    def find(ref: RuntimeRef) -> Object | None:
        from client.connect.connection import api_server
        from extender.kube.operator_client import OperatorApi

        server = api_server(reach.said)
        inside = f"/namespaces/{quote(ref.namespace, safe='')}" if ref.namespace else ""
        path = f"{_GROUP}{inside}/{_PLURALS[ref.kind]}/{quote(ref.name, safe='')}"

        async def ask() -> Object | None:
            async with OperatorApi.opened(server) as api:
                return await api.get(path)

        try:
            return run(ask())
        except ApiError as error:
            raise ApiError(error.status, f"{error.message}; or add the runtime to the manifest") from error

    return Elsewhere(find, "is neither in the manifest nor in the cluster")


def _ref(one: Object) -> RuntimeRef | None:
    if one.get("kind") not in RUNTIME_KINDS:
        return None
    metadata = mapping(one, "metadata")
    namespace = str(metadata.get("namespace") or "default") if one["kind"] == "TrainingRuntime" else ""
    return RuntimeRef(one["kind"], namespace, str(metadata.get("name") or ""))
