"""What is read of a cluster: what manifests/ installs is as it should be; what may not be read is said, not guessed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cli.doctor.checks import Severity, examine
from cli.doctor.facts import Facts
from extender.errors import ConfigError
from extender.kube import calls
from extender.leadership.election import LeaseTimes
from tests.cli.doctor.installed import ADMISSION, CONFIG, HOME, SCHEDULER, SETTINGS, installed, look, text
from tests.fakes.operator_api import FakeOperatorApi

pytestmark = pytest.mark.looptime


def ids(facts: Facts) -> list[str]:
    return [one.id for one in examine(facts) if one.severity is not Severity.NOTE]


async def test_what_is_installed_is_as_it_should_be() -> None:
    api = installed()
    facts = await look(api).facts()
    assert examine(facts) == ()
    assert facts.settings.leader_election
    assert (facts.kubernetes, facts.scheduler_version) == ("1.36.3", "1.36.3")
    assert facts.settings_from == "ConfigMap netgang-system/netgang"
    assert len(facts.replicas or ()) == facts.wanted == 2
    assert set(api.calls) <= {"get", "list", "create"}


async def test_each_right_is_asked_for() -> None:
    api = installed()
    await look(api).facts()
    wanted = calls.CALLS | calls.LEADING | calls.STARTED
    assert api.calls["create"] == len(wanted) + 1
    api = installed()
    api.denied = {("patch", "batch", "jobs")}
    facts = await look(api).facts()
    assert facts.denied == (("patch", "batch", "jobs"),)


def config(name: str, key: str, content: str) -> Any:
    return lambda api: api.edit(name, lambda one: one.update(data={key: content}))


def spec(path: str, **fields: Any) -> Any:
    return lambda api: api.edit(path, lambda one: one["spec"].update(fields))


def gone(path: str) -> Any:
    return lambda api: api.remove(path)


SHORT = text("scheduler-config/second-scheduler.yaml").replace("60s", "6s")
OTHER = [{"name": "netgang", "expression": "request.userInfo.username == 'other'"}]
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
CHANGED: dict[str, tuple[Any, str]] = {  # case: (what is changed in the cluster, finding)
    "settings that are refused": (config(SETTINGS, "netgang.yaml", "spill_wait_s: many"), "settings-invalid"),
    "settings that are no YAML": (config(SETTINGS, "netgang.yaml", "a: [b"), "settings-invalid"),
    "a short timeout": (config(CONFIG, "scheduler.yaml", SHORT), "bind-timeout"),
    "another kube-scheduler": (
        lambda api: api.edit(
            SCHEDULER, lambda one: one["spec"]["template"]["spec"]["containers"][0].update(image="k:5000/x:v1.37.0")),
        "scheduler-version"),
    "no policy that confines pods": (gone(f"{POLICIES}/netgang-pods"), "unconfined"),
    "a confinement that is not bound": (gone(f"{BINDINGS}/netgang-jobs"), "unconfined"),
    "a confinement that only warns": (spec(f"{BINDINGS}/netgang-jobs", validationActions=["Warn"]), "unconfined"),
    "a confinement of another account": (spec(f"{POLICIES}/netgang-pods", matchConditions=OTHER), "unconfined"),
    "another port of the Service": (
        spec(f"/api/v1/{HOME}/services/netgang", ports=[{"name": "http", "port": 80}]), "extender-url"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "id_"), CHANGED.values(), ids=CHANGED)
async def test_what_is_changed_in_the_cluster_is_found(change: Any, id_: str) -> None:
    api = installed()
    change(api)
    assert ids(await look(api).facts()) == [id_]


async def test_what_may_not_be_read_is_said() -> None:
    api = installed()
    api.forbidden = {"/api/v1/nodes", "/apis/authorization.k8s.io"}
    facts = await look(api).facts()
    assert (facts.nodes, facts.denied) == (None, None)
    notes = examine(facts)
    assert [one.id for one in notes] == ["not-seen", "not-seen"]
    assert "cannot list /api/v1/nodes" in notes[0].what + notes[1].what


async def test_files_take_the_place_of_what_is_installed(tmp_path: Path) -> None:
    api = FakeOperatorApi()
    api.server.documents["/version"] = {"gitVersion": "v1.36.3"}
    settings, config = tmp_path / "netgang.yaml", tmp_path / "scheduler.yaml"
    settings.write_text("spill_wait_s: 7\n")
    config.write_text(text("scheduler-config/second-scheduler.yaml"))
    facts = await look(api, config=settings, scheduler_config=config).facts()
    assert (facts.settings_from, facts.scheduler_from) == (f"file {settings}", f"file {config}")
    facts = await look(api, scheduler_config=config).facts()
    assert "no Deployment netgang-system/netgang can be read" in facts.unseen[0]
    assert [one.id for one in examine(facts)] == ["not-seen"]
    api.add("/api/v1/nodes/n1", status={})  # seen also where netgang's own settings are not
    facts = await look(api, scheduler_config=config).facts()
    assert [one.id for one in examine(facts)] == ["zone-labels", "not-seen"]
    with pytest.raises(ConfigError, match="cannot be read"):
        await look(api, config=tmp_path / "none").facts()


async def test_the_lease_is_looked_at_twice() -> None:
    """As long apart as a leader may take to renew it."""
    api, began_s = installed(), asyncio.get_running_loop().time()
    await look(api).facts()
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(LeaseTimes().renew_deadline_s)
