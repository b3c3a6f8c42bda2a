"""manifests/components/reports: pods reach the reports and nothing else, and netgang may ask whose a token is."""

from pathlib import Path

import pytest

from extender.kube.calls import TOKEN_REVIEW, rules
from extender.settings.settings import Settings
from tests.contract.manifests.rendered_manifests import (
    Object,
    container_of,
    mounted_settings,
    of_kind,
    rendered,
    rights_of,
    with_components,
)

WITH = ("tls", "elastic", "reports", "debug-auth")


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> tuple[Object, ...]:
    directory = tmp_path_factory.mktemp("reports").resolve()
    return rendered(with_components(directory, "overlays/second-scheduler", WITH))


@pytest.fixture
def settings(objects: tuple[Object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    return mounted_settings(objects, tmp_path, monkeypatch)


def test_reports_come_in_at_a_port_of_their_own(objects: tuple[Object, ...], settings: Settings) -> None:
    assert settings.reports.port == 8891
    assert (settings.elastic.enabled, settings.reports.service_accounts, settings.reports.plain) == (True, True, False)
    assert settings.tls.cert_file is not None
    assert {one["name"]: one["containerPort"] for one in container_of(objects)["ports"]}["reports"] == 8891
    ports = {one["name"]: one["port"] for one in of_kind(objects, "Service")["netgang"]["spec"]["ports"]}
    assert ports == {"http": 8888, "reports": 8891}


def test_pods_reach_the_reports_and_not_the_verbs(objects: tuple[Object, ...]) -> None:
    verbs, *others = of_kind(objects, "NetworkPolicy")["netgang"]["spec"]["ingress"]
    assert [port["port"] for port in verbs["ports"]] == [8888]
    assert verbs["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "netgang-scheduler"}}}]
    assert others == [
        {"ports": [{"protocol": "TCP", "port": 8890}]},
        {"from": [{"namespaceSelector": {}}], "ports": [{"protocol": "TCP", "port": 8891}]},
    ]


def test_netgang_may_ask_whose_a_token_is(objects: tuple[Object, ...]) -> None:
    role = of_kind(objects, "ClusterRole")["netgang-reports"]
    assert set(rights_of(role["rules"])) == rules((TOKEN_REVIEW,))
    binding = of_kind(objects, "ClusterRoleBinding")["netgang-reports"]
    assert [(one["name"], one["namespace"]) for one in binding["subjects"]] == [("netgang", "netgang-system")]


def test_neither_tls_nor_elastic_can_be_left_out(settings: Settings) -> None:
    given = settings.model_dump(mode="json", exclude={"score"})
    for name, said in (("tls", "cross the network readable"), ("elastic", "elastic.enabled")):
        with pytest.raises(ValueError, match=said):
            Settings.model_validate({key: value for key, value in given.items() if key != name})
