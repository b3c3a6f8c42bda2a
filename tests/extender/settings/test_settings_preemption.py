"""The settings of preemption: off unless it is asked for, in the words of YAML too."""

from pathlib import Path

import pytest

from extender.errors import ConfigError
from extender.settings.settings import Settings
from scoring.model.policy import Preempting

WRITTEN = {  # case: (a line of the settings file, what is meant)
    "nothing": ("", Preempting.OFF),
    "off": ("preemption: off", Preempting.OFF),
    "off in quotes": ("preemption: 'off'", Preempting.OFF),
    "gangs": ("preemption: gangs", Preempting.GANGS),
}


@pytest.mark.parametrize(("line", "meant"), WRITTEN.values(), ids=WRITTEN)
def test_what_is_read(tmp_path: Path, line: str, meant: Preempting) -> None:
    """YAML reads `off` without quotes as false."""
    file = tmp_path / "settings.yaml"
    file.write_text(f"port: 8888\n{line}\n")
    settings = Settings.load(file)
    assert (settings.preemption, settings.policy().preemption) == (meant, meant)


@pytest.mark.parametrize("line", ["preemption: on", "preemption: pods", "preemption_timeout_s: 0"])
def test_what_is_refused(tmp_path: Path, line: str) -> None:
    """There is no `on`: it has to be said what leaves."""
    file = tmp_path / "settings.yaml"
    file.write_text(f"{line}\n")
    with pytest.raises(ConfigError, match="preemption"):
        Settings.load(file)
