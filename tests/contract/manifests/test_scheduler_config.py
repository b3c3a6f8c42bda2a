"""The two kube-scheduler configurations: what kube-scheduler would refuse, and what would break gangs in silence.

kube-scheduler checks little of an extender entry: a wrong URL, a timeout below our hold limit or an ignorable binder
pass.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from extender.settings.settings import Settings
from extender.settings.times import longest_bind_s
from lab.testbed.parts.installed import installed_object, installed_settings
from lab.testbed.processes.schedulers import load_configuration

ROOT = Path(__file__).parents[3]
NAMES = ("second-scheduler", "default-scheduler")
VERBS = ("filterVerb", "prioritizeVerb", "bindVerb")
KNOWN_FIELDS = frozenset(
    {
        *("urlPrefix", "filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb", "weight", "enableHTTPS", "tlsConfig"),
        *("httpTimeout", "nodeCacheCapable", "managedResources", "ignorable"),
    }
)


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def configuration(name: str) -> Mapping[str, Any]:
    return load_configuration(ROOT / "scheduler-config" / f"{name}.yaml")


@pytest.fixture
def extenders(configuration: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return tuple(configuration["extenders"])


@pytest.fixture
def settings(name: str) -> Settings:
    """Those that are installed beside it; docs/how-to/which-scheduler.md changes the name alone."""
    own = {} if name == "second-scheduler" else {"scheduler_names": ["default-scheduler"]}
    return Settings().changed(installed_settings() | own)


def _seconds(duration: str) -> float:
    found = re.fullmatch(r"(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", duration)
    assert found is not None, f"{duration} is not a duration such as 60s"
    assert duration
    return 60.0 * int(found[1] or 0) + float(found[2] or 0)


def _binder(extenders: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    (binder,) = [entry for entry in extenders if entry.get("bindVerb")]
    return binder


def test_there_are_exactly_these_two() -> None:
    found = {file.stem for file in (ROOT / "scheduler-config").glob("*.yaml")}
    assert found == set(NAMES)


def test_entries_have_known_fields_only(extenders: Sequence[Mapping[str, Any]]) -> None:
    """kube-scheduler decodes strictly: a misspelt field stops it."""
    assert all(set(entry) <= KNOWN_FIELDS for entry in extenders)


def test_all_three_verbs_are_offered_once(extenders: Sequence[Mapping[str, Any]]) -> None:
    offered = [entry[verb] for entry in extenders for verb in VERBS if entry.get(verb)]
    assert sorted(offered) == ["bind", "filter", "prioritize"]
    assert not any(entry.get("preemptVerb") for entry in extenders)


def test_prioritize_has_a_weight(extenders: Sequence[Mapping[str, Any]]) -> None:
    """An entry that prioritizes needs a positive weight, and at least 5 to steer against the in-tree scores."""
    assert [entry["weight"] >= 5 for entry in extenders if entry.get("prioritizeVerb")] == [True]


def test_no_entry_is_ignorable(extenders: Sequence[Mapping[str, Any]]) -> None:
    assert [entry["ignorable"] for entry in extenders] == [False] * len(extenders)


def test_names_and_not_node_objects_are_sent(
    extenders: Sequence[Mapping[str, Any]], configuration: Mapping[str, Any]
) -> None:
    assert all(entry["nodeCacheCapable"] for entry in extenders)
    assert configuration["percentageOfNodesToScore"] == 100


def test_a_held_bind_is_answered_before_the_timeout(extenders: Sequence[Mapping[str, Any]], settings: Settings) -> None:
    timeout_s = _seconds(_binder(extenders)["httpTimeout"])
    assert settings.http_timeout_s == timeout_s
    assert longest_bind_s(hold_s=settings.hold_limit_s) < timeout_s


def test_a_hung_filter_stops_the_scheduler_for_seconds_only(extenders: Sequence[Mapping[str, Any]]) -> None:
    """Filter and prioritize run inside the only scheduling loop."""
    assert all(_seconds(entry["httpTimeout"]) <= 3.0 for entry in extenders if entry.get("filterVerb"))


def test_the_profiles_are_those_of_the_settings(configuration: Mapping[str, Any], settings: Settings) -> None:
    assert [profile["schedulerName"] for profile in configuration["profiles"]] == list(settings.scheduler_names)


def test_the_entries_reach_netgang(name: str, extenders: Sequence[Mapping[str, Any]], settings: Settings) -> None:
    (url,) = {entry["urlPrefix"] for entry in extenders}
    service = installed_object("Service")
    inside = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
    parts = urlsplit(url)
    assert parts.hostname == (inside if name == "second-scheduler" else "10.96.0.88"), "a static pod resolves no name"
    assert parts.port == settings.port == service["spec"]["ports"][0]["port"]
    assert (parts.scheme, parts.path) == ("http", "")


def test_only_the_second_scheduler_gives_up_preemption() -> None:
    """Pod-wise pre-emption breaks gangs; a cluster's own scheduler keeps it for its other pods."""
    disabled = {}
    for name in NAMES:
        (profile,) = load_configuration(ROOT / "scheduler-config" / f"{name}.yaml")["profiles"]
        plugins = profile.get("plugins", {}).get("multiPoint", {}).get("disabled", [])
        disabled[name] = [plugin["name"] for plugin in plugins]
    assert disabled == {"second-scheduler": ["DefaultPreemption"], "default-scheduler": []}


def test_the_second_scheduler_has_its_own_lease(name: str, configuration: Mapping[str, Any]) -> None:
    """With the default lease name it would wait without end behind the cluster's scheduler."""
    lease = configuration["leaderElection"]
    assert lease["leaderElect"] is True
    want = ("netgang-scheduler", "netgang-system") if name == "second-scheduler" else (None, None)
    assert (lease.get("resourceName"), lease.get("resourceNamespace")) == want


def test_refused_pods_are_tried_again_within_ten_seconds(configuration: Mapping[str, Any]) -> None:
    """Backoff starts at a second and ends at ten: what a failed hold costs a gang."""
    assert 1 <= configuration["podInitialBackoffSeconds"] <= configuration["podMaxBackoffSeconds"] <= 10
