"""manifests/components with rights: they are the calls that are made, and netgang alone has them."""

from pathlib import Path

import pytest
import yaml

from extender.kube import calls

COMPONENTS = Path(__file__).parents[3] / "manifests/components"
RIGHTS = {"restart": calls.RESTARTS, "explain": calls.EXPLAIN, "provisioning": calls.PROVISIONING}


@pytest.mark.parametrize("name", RIGHTS)
def test_the_rights_are_the_calls(name: str) -> None:
    """What extender.kube.calls lists for it, nothing more and nothing less; `get` of owners every netgang has."""
    role, binding = yaml.safe_load_all((COMPONENTS / name / "rbac.yaml").read_text())
    allowed = {
        (verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == calls.rules(RIGHTS[name])
    assert {("get", one.group, one.plural) for one in calls.SUSPENDED.values()} <= calls.rules()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "netgang", "namespace": "netgang-system"}]


@pytest.mark.parametrize("name", RIGHTS)
def test_the_component_holds_what_is_there(name: str) -> None:
    """One file, which kustomize reads."""
    found = yaml.safe_load((COMPONENTS / name / "kustomization.yaml").read_text())
    assert (found["kind"], found["resources"]) == ("Component", ["rbac.yaml"])


def test_without_the_component_nothing_can_be_suspended() -> None:
    """The rights that every netgang has patch no owner, read no disruption budget and no quota, and make nothing."""
    usual = calls.rules()
    assert not {right for some in RIGHTS.values() for right in calls.rules(some) if right in usual}
