"""Settings of optional features: off unless asked for, in the words of YAML too, and refused by their names."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.errors import ConfigError
from extender.settings.features import AutoscalingMode
from extender.settings.layers import ENV_PREFIX
from extender.settings.leadership import LeaderElection
from extender.settings.settings import Settings
from scoring.model.policy import Preempting
from scoring.provisioning.requests import AskingLimits

COMPONENT = Path(__file__).parents[3] / "manifests/components/provisioning"
ASKING = AutoscalingMode.PROVISIONING_REQUEST


def load(directory: Path, line: str) -> Settings:
    """Settings of a file with this line."""
    file = directory / "settings.yaml"
    file.write_text(f"port: 8888\n{line}\n")
    return Settings.load(file)


OFF = (Preempting.OFF, AutoscalingMode.OFF, LeaderElection.OFF)
WRITTEN = {  # case: (a line of the settings file; preemption, autoscaling and election that it means)
    "nothing": ("", OFF),
    "preemption off": ("preemption: off", OFF),
    "preemption off in quotes": ("preemption: 'off'", OFF),
    "preemption of gangs": ("preemption: gangs", (Preempting.GANGS, *OFF[1:])),
    "autoscaling off": ("autoscaling: {mode: off}", OFF),
    "autoscaling off in quotes": ("autoscaling: {mode: 'off'}", OFF),
    "autoscaling": ("autoscaling: {mode: provisioning-request}", (Preempting.OFF, ASKING, LeaderElection.OFF)),
    "election on": ("leader_election: on", (*OFF[:2], LeaderElection.ON)),
    "election on in quotes": ('leader_election: "on"', (*OFF[:2], LeaderElection.ON)),
    "election off": ("leader_election: off", OFF),
    "election true": ("leader_election: true", (*OFF[:2], LeaderElection.ON)),
}


@pytest.mark.parametrize(("line", "meant"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_read(tmp_path: Path, line: str, meant: tuple[object, ...]) -> None:
    """YAML reads `off` without quotes as false; what decides knows of preemption, and whether nodes may come."""
    settings = load(tmp_path, line)
    assert (settings.preemption, settings.autoscaling.mode, settings.leader_election) == meant
    policy = settings.policy()
    assert (policy.preemption, policy.asks_for_nodes) == (meant[0], meant[1] is ASKING)


AUTOSCALING = ("mode: on", "mode: requests", "class_name: some.class", "most: 0", "after_s: -1", "backoff_s: 60")
REFUSED = (  # there is no `preemption: on`: it has to be said what leaves
    *("preemption: on", "preemption: pods", "preemption_timeout_s: 0"),
    *(f"autoscaling: {{{one}}}" for one in (*AUTOSCALING, "max: 3")),
)


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused(tmp_path: Path, line: str) -> None:
    """By its name, before the first gang waits."""
    with pytest.raises(ConfigError, match=line.partition(":")[0].removesuffix("_timeout_s")):
        load(tmp_path, line)


def test_the_numbers_are_those_that_decide(tmp_path: Path) -> None:
    """Each setting reaches its limit, and the defaults are the same in both places."""
    given = load(tmp_path, "autoscaling: {most: 3, after_s: 5}").autoscaling.limits()
    assert given == AskingLimits(most=3, after_s=5.0)
    assert Settings().autoscaling.limits() == AskingLimits()


def test_the_component_switches_provisioning_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable of the setting."""
    kustomization: dict[str, Any] = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())
    (patch,) = kustomization["patches"]
    (container,) = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["containers"]
    ((name, value),) = [(one["name"], one["value"]) for one in container["env"]]
    assert name == f"{ENV_PREFIX}AUTOSCALING__MODE"
    monkeypatch.setenv(name, value)
    assert Settings.load().autoscaling.mode is ASKING
