"""The real definitions of kinds whose controllers are not Kubernetes' own, and what controllers want to be installed.

Why the real ones: an example that is held against our own reading of an API shares our misreadings. Rule: each is its
project's own file at a pinned release, out of the project's Go module like everything else of the test bed. Only what
is used is taken: each of these files is about a megabyte, and an API server holds all that are installed.
"""

from collections.abc import Mapping
from types import MappingProxyType

from lab.testbed.programs.catalogue import JOBSET, KUEUE, VOLCANO, Asset, Version

_JOBSET, _KUEUE, _VOLCANO = (
    ("sigs.k8s.io/jobset", JOBSET),
    ("sigs.k8s.io/kueue", KUEUE),
    ("volcano.sh/volcano", VOLCANO),
)
_MPI, _TRAINER = "github.com/kubeflow/mpi-operator", "github.com/kubeflow/trainer/v2"
_RAY = "github.com/ray-project/kuberay/ray-operator"
_KUEUE_KINDS = (
    *("admissionchecks", "clusterqueues", "cohorts", "localqueues", "multikueueclusters", "multikueueconfigs"),
    *("provisioningrequestconfigs", "resourceflavors", "topologies", "workloadpriorityclasses", "workloads"),
)
_VOLCANO_KINDS = (
    *("scheduling.volcano.sh_podgroups", "scheduling.volcano.sh_queues", "topology.volcano.sh_hypernodes"),
    *("nodeinfo.volcano.sh_numatopologies", "shard.volcano.sh_nodeshards"),
)


def _assets(**of: tuple[tuple[str, str], str, tuple[str, ...]]) -> Mapping[str, Asset]:
    """Name of the asset, with _ for - → its files in one folder of a module."""
    made = {}
    for name, ((module, version), folder, files) in of.items():
        listed = MappingProxyType({f"{folder}/{one}": one for one in files})
        made[name.replace("_", "-")] = Asset(name.replace("_", "-"), module, Version(version), listed)
    return MappingProxyType(made)


DEFINITIONS = _assets(
    jobset_crds=(_JOBSET, "config/components/crd/bases", ("jobset.x-k8s.io_jobsets.yaml",)),
    lws_crds=(("sigs.k8s.io/lws", "0.9.0"), "config/crd/bases", ("leaderworkerset.x-k8s.io_leaderworkersets.yaml",)),
    trainer_crds=(
        (_TRAINER, "2.3.0"),
        "manifests/base/crds",
        ("trainer.kubeflow.org_clustertrainingruntimes.yaml", "trainer.kubeflow.org_trainjobs.yaml"),
    ),
    mpi_crds=((_MPI, "0.8.0"), "manifests/base", ("kubeflow.org_mpijobs.yaml",)),
    ray_crds=((_RAY, "1.6.0"), "config/crd/bases", ("ray.io_rayclusters.yaml",)),
)
"""Kinds that examples/kinds shows and whose controllers mostly do not run in the tests."""

BESIDE_CONTROLLERS = _assets(
    jobset_webhooks=(_JOBSET, "config/components/webhook", ("manifests.yaml",)),
    kueue_crds=(_KUEUE, "config/components/crd/bases", tuple(f"kueue.x-k8s.io_{one}.yaml" for one in _KUEUE_KINDS)),
    kueue_webhooks=(_KUEUE, "config/components/webhook", ("manifests.yaml",)),
    volcano_crds=(_VOLCANO, "config/crd/volcano/bases", tuple(f"{one}.yaml" for one in _VOLCANO_KINDS)),
    volcano_settings=(_VOLCANO, "installer/helm/chart/volcano/config", ("volcano-scheduler.conf",)),
)
"""What controllers and Volcano's scheduler read, and want the API server to ask them; only together with them."""
