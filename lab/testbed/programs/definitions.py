"""The real definitions of the kinds that examples/kinds shows and whose controllers do not run in the tests.

Why the real ones: an example that is held against our own reading of an API shares our misreadings. Rule: each is its
project's own file at a pinned release, out of the project's Go module like everything else of the test bed. Only what
examples use is taken: each of these files is about a megabyte, and an API server holds all that are installed.
"""

from collections.abc import Mapping
from types import MappingProxyType

from lab.testbed.programs.catalogue import VOLCANO, Asset, Version


def _defined(name: str, module: str, version: str, folder: str, *files: str) -> Asset:
    """Definitions that lie in one folder of a module."""
    return Asset(name, module, Version(version), MappingProxyType({f"{folder}/{one}": one for one in files}))


# name of the asset → its definitions
DEFINITIONS: Mapping[str, Asset] = MappingProxyType(
    {
        asset.name: asset
        for asset in (
            _defined(
                "jobset-crds",
                "sigs.k8s.io/jobset",
                "0.12.0",
                "config/components/crd/bases",
                "jobset.x-k8s.io_jobsets.yaml",
            ),
            _defined(
                "lws-crds",
                "sigs.k8s.io/lws",
                "0.9.0",
                "config/crd/bases",
                "leaderworkerset.x-k8s.io_leaderworkersets.yaml",
            ),
            _defined(
                "trainer-crds",
                "github.com/kubeflow/trainer/v2",
                "2.3.0",
                "manifests/base/crds",
                "trainer.kubeflow.org_clustertrainingruntimes.yaml",
                "trainer.kubeflow.org_trainjobs.yaml",
            ),
            _defined(
                "mpi-crds",
                "github.com/kubeflow/mpi-operator",
                "0.8.0",
                "manifests/base",
                "kubeflow.org_mpijobs.yaml",
            ),
            _defined(
                "ray-crds",
                "github.com/ray-project/kuberay/ray-operator",
                "1.6.0",
                "config/crd/bases",
                "ray.io_rayclusters.yaml",
            ),
        )
    }
)

JOBSET_WEBHOOKS = _defined(
    "jobset-webhooks", "sigs.k8s.io/jobset", "0.12.0", "config/components/webhook", "manifests.yaml"
)
"""What JobSet's controller wants the API server to ask it; no definition, and only together with the controller."""

KUEUE_CRDS = _defined(
    "kueue-crds",
    "sigs.k8s.io/kueue",
    "0.19.1",
    "config/components/crd/bases",
    *(
        f"kueue.x-k8s.io_{plural}.yaml"
        for plural in (
            *("admissionchecks", "clusterqueues", "cohorts", "localqueues", "multikueueclusters"),
            *("multikueueconfigs", "provisioningrequestconfigs", "resourceflavors", "topologies"),
            *("workloadpriorityclasses", "workloads"),
        )
    ),
)
KUEUE_WEBHOOKS = _defined(
    "kueue-webhooks", "sigs.k8s.io/kueue", "0.19.1", "config/components/webhook", "manifests.yaml"
)
"""All kinds of Kueue, which its manager watches, and what it wants to be asked; only together with the manager."""

VOLCANO_CRDS = _defined(
    "volcano-crds",
    "volcano.sh/volcano",
    VOLCANO,
    "config/crd/volcano/bases",
    "scheduling.volcano.sh_podgroups.yaml",
    "scheduling.volcano.sh_queues.yaml",
    "topology.volcano.sh_hypernodes.yaml",
    "nodeinfo.volcano.sh_numatopologies.yaml",
    "shard.volcano.sh_nodeshards.yaml",
)
VOLCANO_SETTINGS = _defined(
    "volcano-settings", "volcano.sh/volcano", VOLCANO, "installer/helm/chart/volcano/config", "volcano-scheduler.conf"
)
"""What Volcano's scheduler reads, and its settings as its chart has them."""

BESIDE_CONTROLLERS = (JOBSET_WEBHOOKS, KUEUE_CRDS, KUEUE_WEBHOOKS, VOLCANO_CRDS, VOLCANO_SETTINGS)
