"""The table of programs: versions, go.mod files and linker flags."""

import pytest

from lab.testbed.programs.catalogue import (
    CORE,
    KUBERNETES,
    PROGRAMS,
    Version,
    go_mod,
    linker_flags,
    parse_version,
)

UPSTREAM = """module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
\tk8s.io/api v0.0.0
\tk8s.io/utils v0.0.0-20260101000000-abcdef123456
)

replace (
\tk8s.io/streaming => ./staging/src/k8s.io/streaming
\tk8s.io/api => ./staging/src/k8s.io/api
)
"""


def test_core_is_in_the_table() -> None:
    assert set(CORE) <= set(PROGRAMS)
    assert {PROGRAMS[name].default_version for name in CORE if name.startswith("kube")} == {KUBERNETES}


def test_staging_modules_follow_the_release() -> None:
    """Each staging module that Kubernetes takes from its own tree is pinned to v0.Y.Z of v1.Y.Z, no other module is."""
    text = go_mod(PROGRAMS["kubectl"], Version("1.35.4"), upstream=UPSTREAM)

    assert "require k8s.io/kubernetes v1.35.4\n" in text
    assert "\tk8s.io/api => k8s.io/api v0.35.4\n\tk8s.io/streaming => k8s.io/streaming v0.35.4\n" in text
    assert "utils" not in text


def test_other_modules_need_no_replacements() -> None:
    text = go_mod(PROGRAMS["kwok"], Version("0.8.0"), upstream="module sigs.k8s.io/kwok\n\ngo 1.26.0\n")

    assert text == "module testbed.invalid/kwok\n\ngo 1.26.0\n\nrequire sigs.k8s.io/kwok v0.8.0\n"


def test_replacements_of_the_table_are_written_down() -> None:
    text = go_mod(PROGRAMS["prometheus"], Version("0.42.0"), upstream="module x\n\ngo 1.18\n")

    assert text.endswith(
        "replace (\n"
        "\tk8s.io/klog => github.com/simonpasquier/klog-gokit v0.3.0\n"
        "\tk8s.io/klog/v2 => github.com/simonpasquier/klog-gokit/v3 v3.0.0\n"
        ")\n"
    )


def test_a_module_on_kubernetes_source_keeps_its_pins() -> None:
    upstream = "go 1.24.0\nreplace (\n\tk8s.io/api  =>  k8s.io/api v0.33.5\n\tx.io/y => z.io/y v1.0.0\n)\n"
    text = go_mod(PROGRAMS["coscheduling"], Version("0.33.5"), upstream=upstream)

    assert text.endswith("replace (\n\tk8s.io/api => k8s.io/api v0.33.5\n)\n")


def test_a_dependency_that_lacks_something_is_taken_from_a_copy() -> None:
    text = go_mod(PROGRAMS["vc-scheduler"], Version("1.15.0"), upstream="go 1.25.0\n")

    assert text.endswith("replace (\n\tvolcano.sh/apis => ./completed\n)\n")


def test_upstream_without_go_version_is_refused() -> None:
    with pytest.raises(ValueError, match="names no Go version"):
        go_mod(PROGRAMS["kwok"], Version("0.8.0"), upstream="module sigs.k8s.io/kwok\n")


STAMPS = {  # case: (program, what its linker flags end with)
    "kubernetes panics without a version": ("kube-scheduler", "component-base/version.gitVersion=v1.36.3"),
    "others need none": ("etcd", "-s -w"),
}


@pytest.mark.parametrize(("name", "end"), STAMPS.values(), ids=STAMPS)
def test_version_stamp(name: str, end: str) -> None:
    assert linker_flags(PROGRAMS[name], KUBERNETES).endswith(end)


@pytest.mark.parametrize("text", ["1.36", "latest", "1.36.3-rc.1", "", "1.36.3/../x", "v"])
def test_versions_are_three_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="is not a version"):
        parse_version(text)
