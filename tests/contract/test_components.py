"""manifests/components/restart: the rights are the calls that are made, and netgang alone has them."""

from pathlib import Path

import yaml

from extender.kube import calls

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "manifests/components/restart"


def test_the_rights_to_start_gangs_anew() -> None:
    """What extender.kube.calls lists in RESTARTS, nothing more and nothing less; `get` every netgang has."""
    role, binding = yaml.safe_load_all((COMPONENT / "rbac.yaml").read_text())
    allowed = {
        (verb, group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == calls.rules(calls.RESTARTS)
    assert {("get", one.group, one.plural) for one in calls.SUSPENDED.values()} <= calls.rules()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "netgang", "namespace": "netgang-system"}]


def test_the_component_holds_what_is_there() -> None:
    """One file, which kustomize reads."""
    found = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())
    assert (found["kind"], found["resources"]) == ("Component", ["rbac.yaml"])


def test_without_the_component_nothing_can_be_suspended() -> None:
    """The rights that every netgang has patch no owner and read no disruption budget."""
    usual = calls.rules()
    assert not {right for right in calls.rules(calls.RESTARTS) if right in usual}
