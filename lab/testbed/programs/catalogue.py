"""The programs of the control plane: from which Go module, which package, at which versions.

Why: the module proxy is the only source that every computer with Go can reach, so nothing else is needed.
Rule: a program is identified by name and version, and both are in the name of the file it is built to. Each
module is built with a go.mod of its own that requires just that module, because Go ignores the `replace`
lines of a dependency: for Kubernetes they are rebuilt here, staging module by staging module.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NewType

import msgspec

Version = NewType("Version", str)
"""A release without the leading `v`, such as `1.36.3`."""

KUBERNETES = Version("1.36.3")
"""The Kubernetes version of everything unless another one is chosen."""

TESTED = (KUBERNETES, Version("1.37.2"), Version("1.35.4"))
"""Versions of Kubernetes that netgang is tested with; docs/start/install.md says which are when."""

JOBSET, KUEUE, VOLCANO = Version("0.12.0"), Version("0.19.1"), Version("1.15.0")
"""Versions of programs and of their definitions."""

COPY = "completed"
"""The directory beside the go.mod in which a completed module lies."""

_KUBERNETES_MODULE = "k8s.io/kubernetes"
_KWOK = Version("0.8.0")
_OPERATOR, _OPERATOR_VERSION = "github.com/kubeflow/training-operator", Version("1.8.1")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_STAGING = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/\S+)\s+=>\s+\./staging/src/k8s\.io/\S+\s*$", re.MULTILINE)
_RELEASED = re.compile(r"^\s*(?:replace\s+)?(k8s\.io/\S+\s+=>\s+k8s\.io/\S+\s+v\S+)\s*$", re.MULTILINE)
_GO_LINE = re.compile(r"^go\s+(\S+)\s*$", re.MULTILINE)


class Completed(msgspec.Struct, frozen=True):
    """A `module` that is taken from a copy, `COPY`, with a `file` more than its release has: its Go `source`."""

    module: str
    version: Version
    file: str
    source: str


class Program(msgspec.Struct, frozen=True):
    """One program: Go `package` of `module`, built at `default_version` by default.

    `stamp` is the linker variable that must hold the version: Kubernetes' programs panic without it. `pins_kubernetes`:
    the module builds on Kubernetes' own source, so those of its lines that pin Kubernetes' modules to a release are
    kept. `completed` is a dependency whose release lacks what the module uses.
    """

    name: str
    module: str
    package: str
    default_version: Version
    stamp: str | None = None
    pins_kubernetes: bool = False
    completed: Completed | None = None


class Asset(msgspec.Struct, frozen=True):
    """Files of a module's source tree: `files` maps the path in the module to the name in the cache."""

    name: str
    module: str
    default_version: Version
    files: Mapping[str, str]


def _kubernetes(name: str) -> Program:
    return Program(
        name=name,
        module=_KUBERNETES_MODULE,
        package=f"{_KUBERNETES_MODULE}/cmd/{name}",
        default_version=KUBERNETES,
        stamp="k8s.io/component-base/version.gitVersion",
    )


# name of the program → how it is built
PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        program.name: program
        for program in (
            Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", Version("3.6.16")),
            _kubernetes("kube-apiserver"),
            _kubernetes("kube-scheduler"),
            _kubernetes("kubectl"),
            _kubernetes("kube-controller-manager"),
            Program("kwok", "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", _KWOK),
            Program("helm", "helm.sh/helm/v3", "helm.sh/helm/v3/cmd/helm", Version("3.22.0")),
            Program("training-operator", _OPERATOR, f"{_OPERATOR}/cmd/training-operator.v1", _OPERATOR_VERSION),
            Program("jobset", "sigs.k8s.io/jobset", "sigs.k8s.io/jobset", JOBSET),
            Program("kueue", "sigs.k8s.io/kueue", "sigs.k8s.io/kueue/cmd/kueue", KUEUE),
            Program(  # the coscheduling plugin's kube-scheduler, for the benchmarks beside peers
                "coscheduling",
                "sigs.k8s.io/scheduler-plugins",
                "sigs.k8s.io/scheduler-plugins/cmd/scheduler",
                Version("0.33.5"),
                pins_kubernetes=True,
            ),
            Program(  # Volcano's scheduler, a peer too: its go.mod takes volcano.sh/apis from a tree that no module has
                "vc-scheduler",
                "volcano.sh/volcano",
                "volcano.sh/volcano/cmd/scheduler",
                VOLCANO,
                pins_kubernetes=True,
                completed=Completed(
                    "volcano.sh/apis",
                    Version("1.14.0"),
                    "pkg/apis/scheduling/v1beta1/completed.go",
                    'package v1beta1\n\nconst QueueAllocationGateKey = "scheduling.volcano.sh/queue-allocation-gate"\n',
                ),
            ),
        )
    }
)

CORE = ("etcd", "kube-apiserver", "kube-scheduler", "kubectl", "kwok")
"""What every cluster needs; the other programs are built when a test asks for them."""

E2E = (*CORE, "kube-controller-manager", "helm", "training-operator", "jobset", "kueue")
"""What the tests of tests/e2e ask for, so that all of it can be built before the first test's time begins."""

_STAGES = (
    *("pod/fast/pod-ready.yaml", "pod/fast/pod-complete.yaml", "pod/fast/pod-delete.yaml"),
    *("node/fast/node-initialize.yaml", "node/heartbeat/node-heartbeat.yaml"),
)
"""What kwok does to pods and nodes; `pod-complete` ends Job pods at once and is off by default."""

# name of the asset → its files
ASSETS: Mapping[str, Asset] = MappingProxyType(
    {
        asset.name: asset
        for asset in (
            Asset(
                "kwok-stages",
                "sigs.k8s.io/kwok",
                _KWOK,
                {f"kustomize/stage/{one}": one.rpartition("/")[2] for one in _STAGES},
            ),
            Asset(  # PodGroup of group scheduling.x-k8s.io: the definition that the training operator also ships
                "podgroup-crd",
                "sigs.k8s.io/scheduler-plugins",
                Version("0.28.9"),
                {"manifests/coscheduling/crd.yaml": "podgroup.yaml"},
            ),
            Asset(  # mpijobs are left to the MPI operator, which has a kind of the same name
                "training-crds",
                _OPERATOR,
                _OPERATOR_VERSION,
                {f"manifests/base/crds/kubeflow.org_{one}.yaml": f"{one}.yaml" for one in ("tfjobs", "pytorchjobs")},
            ),
        )
    }
)


def parse_version(text: str) -> Version:
    """Accept `1.36.3` and `v1.36.3`; ValueError for anything that is not three numbers.

    >>> parse_version("v1.36.3")
    '1.36.3'
    """
    bare = text.removeprefix("v")
    if not _VERSION.fullmatch(bare):
        raise ValueError(f"{text!r} is not a version such as 1.36.3")
    return Version(bare)


def go_mod(program: Program, version: Version, *, upstream: str) -> str:
    """The go.mod to build `program` with, given the `upstream` go.mod of its module.

    For Kubernetes every staging module that upstream takes from its own tree (`./staging/src/…` at v1.Y.Z) is
    replaced by the release of the same day (v0.Y.Z). ValueError if upstream names no Go version.
    """
    go_line = _GO_LINE.search(upstream)
    if go_line is None:
        raise ValueError(f"the go.mod of {program.module} names no Go version")
    lines = [
        f"module testbed.invalid/{program.name}",
        "",
        f"go {go_line.group(1)}",
        "",
        f"require {program.module} v{version}",
    ]
    replaced = []
    if program.completed is not None:
        replaced.append(f"{program.completed.module} => ./{COPY}")
    if program.pins_kubernetes:
        replaced += sorted(" ".join(line.split()) for line in _RELEASED.findall(upstream))
    if program.module == _KUBERNETES_MODULE:
        _, minor, patch = version.split(".")
        replaced += [f"{name} => {name} v0.{minor}.{patch}" for name in sorted(_STAGING.findall(upstream))]
    if replaced:
        lines += ["", "replace (", *(f"\t{line}" for line in replaced), ")"]
    return "\n".join(lines) + "\n"


def linker_flags(program: Program, version: Version) -> str:
    """Value of `-ldflags`: no symbol tables, and the version where the program insists on one."""
    stamp = f" -X {program.stamp}=v{version}" if program.stamp else ""
    return f"-s -w{stamp}"
