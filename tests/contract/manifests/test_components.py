"""manifests/components and manifests/people: their rights are the calls that are made, and no more."""

import re
from typing import Any

import pytest
import yaml

from client.connect.target import DEFAULT, target
from extender.controllers.elastic.kinds import KINDS
from extender.kube import calls
from extender.kube.text_store import FORMER_RUNS
from extender.settings.layers import ENV_PREFIX
from extender.settings.settings import Settings
from tests.contract.manifests.rendered_manifests import MANIFESTS, ROOT, rights_of

COMPONENTS = MANIFESTS / "components"
RIGHTS = {
    "restart": calls.RESTARTS,
    "explain": calls.EXPLAIN,
    "elastic": calls.ELASTIC,
}
ROLES: dict[str, Any] = {
    one["metadata"]["name"]: one for one in yaml.safe_load_all((MANIFESTS / "people/rbac.yaml").read_text())
}


def kustomization(name: str) -> dict[str, Any]:
    return yaml.safe_load((COMPONENTS / name / "kustomization.yaml").read_text())


@pytest.mark.parametrize("name", RIGHTS)
def test_the_rights_are_the_calls(name: str) -> None:
    role, binding = yaml.safe_load_all((COMPONENTS / name / "rbac.yaml").read_text())
    allowed = list(rights_of(role["rules"]))
    assert set(allowed) == calls.rules(RIGHTS[name])
    assert len(set(allowed)) == len(allowed)
    assert {("get", one.group, one.plural) for one in calls.SUSPENDED.values()} <= calls.rules()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "netgang", "namespace": "netgang-system"}]
    found = kustomization(name)
    assert (found["kind"], found["resources"]) == ("Component", ["rbac.yaml"])


def test_the_component_allows_the_config_map_of_former_runs_and_no_other() -> None:
    config_map, role, binding = yaml.safe_load_all((COMPONENTS / "lengths/rbac.yaml").read_text())
    assert (config_map["kind"], config_map["metadata"]["name"], "data" in config_map) == (
        "ConfigMap",
        FORMER_RUNS.name,
        False,
    )
    assert set(rights_of(role["rules"])) == calls.rules(calls.LENGTHS)
    assert [rule["resourceNames"] for rule in role["rules"]] == [[FORMER_RUNS.name]]
    assert {one["metadata"]["namespace"] for one in (config_map, role, binding)} == {"netgang-system"}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (patch,) = kustomization("lengths")["patches"]
    (container,) = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": f"{ENV_PREFIX}LENGTHS__ENABLED", "value": "true"}]
    assert Settings().lengths.enabled is False


def test_without_a_component_nothing_can_be_suspended() -> None:
    usual = calls.rules()
    assert not {right for some in RIGHTS.values() for right in calls.rules(some) if right in usual}


def test_every_kind_of_job_can_be_followed_read_and_changed() -> None:
    rights = calls.rules() | calls.rules(calls.ELASTIC)
    for kind in KINDS.values():
        assert calls.resource_of(kind.collection).plural == kind.plural
        for among in ({**calls.OWNERS, **calls.RESIZED}, calls.RESIZED):
            path = calls.served_as(kind.api_version, kind.kind, among=among).path("a", "j")
            assert path == f"/apis/{kind.api_version}/namespaces/a/{kind.plural}/j"
        assert {(verb, kind.group, kind.plural) for verb in ("list", "watch", "get", "patch")} <= rights


def test_elastic_jobs_are_off_by_default_and_the_component_switches_them_on() -> None:
    assert Settings().elastic.enabled is False
    (patch,) = kustomization("elastic")["patches"]
    (container,) = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": f"{ENV_PREFIX}ELASTIC__ENABLED", "value": "true"}]


def test_roles_for_people_allow_what_is_asked_and_nothing_else() -> None:
    """docs/how-to/cli.md: port-forward to pods, or the proxy to the port for people; in netgang's namespace."""
    page = (ROOT / "docs/how-to/cli.md").read_text()
    assert set(re.findall(r"--role=([a-z-]+)", page)) == set(ROLES)
    assert {(one["kind"], one["metadata"]["namespace"]) for one in ROLES.values()} == {
        ("Role", target(DEFAULT).namespace)
    }
    assert [_rule(one) for one in ROLES["netgang-port-forward"]["rules"]] == [
        (["pods"], ["list"], None),
        (["pods/portforward"], ["get", "create"], None),
    ]
    paths = [target(name).proxied.split("/")[-2] for name in (DEFAULT, "netgang-system/https:netgang")]
    assert [_rule(one) for one in ROLES["netgang-service-proxy"]["rules"]] == [
        (["services/proxy"], ["get", "create"], paths)
    ]


def _rule(rule: dict[str, Any]) -> tuple[Any, Any, Any]:
    assert rule["apiGroups"] == [""]
    return rule["resources"], rule["verbs"], rule.get("resourceNames")
