"""manifests/components/elastic: what it allows is what elastic jobs need, and it switches them on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from extender.bootstrap.elastic import named_kinds
from extender.controllers.elastic.kinds import KINDS
from extender.kube import calls
from extender.settings.layers import ENV_PREFIX
from extender.settings.settings import Settings

COMPONENT = Path(__file__).parents[3] / "manifests" / "components" / "elastic"


def _rules() -> Iterator[tuple[str, str, str]]:
    """(verb, group, resource) of the component's one role."""
    (role,) = [one for one in yaml.safe_load_all((COMPONENT / "rbac.yaml").read_text()) if one["kind"] == "ClusterRole"]
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield verb, group, resource


def test_the_rights_are_the_calls_that_are_made() -> None:
    """The component allows what calls.ELASTIC lists, nothing more and nothing less, and nothing twice."""
    allowed = list(_rules())
    assert set(allowed) == calls.rules(calls.ELASTIC)
    assert len(set(allowed)) == len(allowed)


def test_every_kind_can_be_followed_read_and_changed() -> None:
    """Each kind's collection may be listed and watched, and its jobs read and patched, with the rights there are."""
    rights = calls.rules() | calls.rules(calls.ELASTIC)
    for kind in KINDS.values():
        assert calls.resource_of(kind.collection).plural == kind.plural
        for among in ({**calls.OWNERS, **calls.RESIZED}, calls.RESIZED):
            path = calls.served_as(kind.api_version, kind.kind, among=among).path("a", "j")
            assert path == f"/apis/{kind.api_version}/namespaces/a/{kind.plural}/j"
        assert {(verb, kind.group, kind.plural) for verb in ("list", "watch", "get", "patch")} <= rights


def test_it_is_off_by_default_and_the_component_switches_it_on() -> None:
    """Nobody's jobs are resized unless the operator says so; the component's variable is the setting's."""
    assert Settings().elastic.enabled is False
    kustomization: dict[str, Any] = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())
    (patch,) = kustomization["patches"]
    (container,) = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": f"{ENV_PREFIX}ELASTIC__ENABLED", "value": "true"}]


def test_named_kinds_are_served_where_their_name_says() -> None:
    """Only those that are not known anyway, and only while elastic jobs are on."""
    names = ["apps/v1/statefulsets/StatefulSet", "batch/v1/jobs/Job"]
    on, off = (Settings.model_validate({"elastic": {"enabled": e, "scale_kinds": names}}) for e in (True, False))
    assert named_kinds(on) == {("apps", "StatefulSet"): calls.Resource("apps", "v1", "statefulsets")}
    assert named_kinds(off) == {}
    path = "/apis/apps/v1/statefulsets"
    assert calls.resource_of(path, named_kinds(on).values()).plural == "statefulsets"


@pytest.mark.parametrize("name", ["jobs", "apps/v1/statefulsets", "apps/v1/StatefulSet/statefulsets"])
def test_names_that_are_none_are_refused_at_start(name: str) -> None:
    """The sentence says what is accepted."""
    with pytest.raises(ValidationError, match="GROUP/VERSION/PLURAL/KIND"):
        Settings.model_validate({"elastic": {"scale_kinds": [name]}})
