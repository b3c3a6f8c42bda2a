"""The settings of asking for nodes: off unless asked for, in the words of YAML too; the component switches it on."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from extender.errors import ConfigError
from extender.settings.features import AutoscalingMode
from extender.settings.layers import ENV_PREFIX
from extender.settings.settings import Settings
from scoring.provisioning.requests import AskingLimits

COMPONENT = Path(__file__).parents[3] / "manifests/components/provisioning"
WRITTEN = {  # case: (a line of the settings file, what is meant)
    "nothing": ("", AutoscalingMode.OFF),
    "off": ("autoscaling: {mode: off}", AutoscalingMode.OFF),
    "off in quotes": ("autoscaling: {mode: 'off'}", AutoscalingMode.OFF),
    "on": ("autoscaling: {mode: provisioning-request}", AutoscalingMode.PROVISIONING_REQUEST),
}


def load(directory: Path, line: str) -> Settings:
    """Settings of a file with this line."""
    file = directory / "settings.yaml"
    file.write_text(f"port: 8888\n{line}\n")
    return Settings.load(file)


@pytest.mark.parametrize(("line", "meant"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_read(tmp_path: Path, line: str, meant: AutoscalingMode) -> None:
    """YAML reads `off` without quotes as false; what decides knows whether nodes may come."""
    settings = load(tmp_path, line)
    assert settings.autoscaling.mode is meant
    assert settings.policy().asks_for_nodes is (meant is not AutoscalingMode.OFF)


def test_the_numbers_are_those_that_decide(tmp_path: Path) -> None:
    """Each setting reaches its limit, and the defaults are the same in both places."""
    given = load(tmp_path, "autoscaling: {most: 3, after_s: 5}").autoscaling.limits()
    assert given == AskingLimits(most=3, after_s=5.0)
    assert Settings().autoscaling.limits() == AskingLimits()


REFUSED = ["mode: on", "mode: requests", "class_name: some.class", "most: 0", "after_s: -1", "backoff_s: 60", "max: 3"]


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused(tmp_path: Path, line: str) -> None:
    """By its name, before the first gang waits."""
    with pytest.raises(ConfigError, match="autoscaling"):
        load(tmp_path, f"autoscaling: {{{line}}}")


def test_the_component_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable of the setting."""
    kustomization: dict[str, Any] = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())
    (patch,) = kustomization["patches"]
    (container,) = yaml.safe_load(patch["patch"])["spec"]["template"]["spec"]["containers"]
    ((name, value),) = [(one["name"], one["value"]) for one in container["env"]]
    assert name == f"{ENV_PREFIX}AUTOSCALING__MODE"
    monkeypatch.setenv(name, value)
    assert Settings.load().autoscaling.mode is AutoscalingMode.PROVISIONING_REQUEST
