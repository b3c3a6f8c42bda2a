"""The two kube-scheduler configurations: what kube-scheduler would refuse, and what would break gangs in silence."""

from pathlib import Path

import pytest

from cli.doctor.checks import examine
from cli.doctor.facts import Facts, ServiceAddress
from extender.settings.settings import Settings
from lab.testbed.parts.installed import installed_object, installed_settings
from lab.testbed.processes.schedulers import load_configuration
from scoring.model.gang import duration_s

ROOT = Path(__file__).parents[3]
DEFAULT = "default-scheduler"
CONFIGURATIONS = {file.stem: load_configuration(file) for file in (ROOT / "scheduler-config").glob("*.yaml")}
KNOWN_FIELDS = {
    "urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb", "weight", "enableHTTPS", "tlsConfig",
    "httpTimeout", "nodeCacheCapable", "managedResources", "ignorable",
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_doctor_finds_nothing(name: str) -> None:
    """Beside the settings that are installed; docs/how-to/gates-and-schedulers.md changes the name alone."""
    second = name == "second-scheduler"
    source = {"network": {"sources": [{"kind": "file", "path": "mesh.json"}]}}
    settings = Settings().changed(installed_settings() | source | ({} if second else {"scheduler_names": [DEFAULT]}))
    meta, spec = (installed_object("Service")[part] for part in ("metadata", "spec"))
    port, config = spec["ports"][0]["port"], CONFIGURATIONS[name]
    service = ServiceAddress(meta["name"], meta["namespace"], port, "10.96.0.88")  # a static pod resolves no name
    assert examine(Facts(settings=settings, scheduler=config, service=service)) == ()
    hosts = {entry["urlPrefix"] for entry in config["extenders"]}
    assert hosts == {f"http://{'netgang.netgang-system.svc' if second else '10.96.0.88'}:{port}"}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_entries_are_what_kube_scheduler_takes(name: str) -> None:
    """It decodes strictly: a misspelt field stops it. A weight of 5 at least steers against the in-tree scores.

    Filter and prioritize run inside the only scheduling loop, so a hung one may stop it for seconds only.
    """
    config = CONFIGURATIONS[name]
    entries = config["extenders"]
    assert all(set(entry) <= KNOWN_FIELDS for entry in entries)
    assert [entry["weight"] >= 5 for entry in entries if entry.get("prioritizeVerb")] == [True]
    assert all(duration_s(entry["httpTimeout"]) <= 3.0 for entry in entries if entry.get("filterVerb"))
    [binder] = [entry for entry in entries if entry.get("bindVerb")]
    assert duration_s(binder["httpTimeout"]) == Settings().changed(installed_settings()).http_timeout_s
    # Backoff starts at a second and ends at ten: what a failed hold costs a gang.
    assert 1 <= config["podInitialBackoffSeconds"] <= config["podMaxBackoffSeconds"] <= 10


def test_only_the_second_scheduler_gives_up_preemption_and_has_a_lease_of_its_own() -> None:
    """Pod-wise pre-emption breaks gangs; a cluster's own scheduler keeps it, and its Lease, for its other pods."""
    assert CONFIGURATIONS.keys() == {"second-scheduler", DEFAULT}
    own = CONFIGURATIONS[DEFAULT]
    assert not own["profiles"][0].get("plugins", {}).get("multiPoint", {}).get("disabled")
    assert own["leaderElection"] == {"leaderElect": True}
    assert CONFIGURATIONS["second-scheduler"]["leaderElection"]["leaderElect"] is True
