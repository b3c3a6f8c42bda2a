"""Settings of elastic jobs become the options that decide, value for value."""

from dataclasses import fields

import pytest

from extender.errors import ConfigError
from extender.settings.features import ElasticMetricsSettings, ElasticSettings
from extender.settings.settings import Settings
from scoring.scaling.job import Wants
from scoring.scaling.options import MetricOptions, Options


def test_defaults_are_those_of_the_decisions() -> None:
    """Only `enabled` differs: nobody's job is resized unless the operator asks for it."""
    found = ElasticSettings().options()
    assert found == Options(enabled=False)
    assert {field.name for field in fields(MetricOptions)} >= set(ElasticMetricsSettings.model_fields)


def test_every_setting_reaches_its_option() -> None:
    """Nested names, null for no limit, and `off` as YAML reads it."""
    found = Settings.load(
        overrides={
            "elastic": {"enabled": True, "dry_run": True, "decrement": None, "increment": 5, "cool_down_s": 7},
            "elastic.metrics.default": False,
            "elastic.metrics.every_steps": 50,
            "elastic.condition": "heaviest",
        }
    ).elastic.options()
    assert (found.enabled, found.dry_run, found.decrement, found.increment) == (True, True, None, 5)
    assert (found.cool_down_s, found.condition) == (7.0, "heaviest")
    assert (found.metrics.default, found.metrics.every_steps) == (Wants.OFF, 50)


REFUSED = {  # case: (setting, value, what the refusal names)
    "no steps": ("elastic.metrics.every_steps", 0, "elastic.metrics.every_steps"),
    "no decrement": ("elastic.decrement", 0, "elastic.decrement"),
    "an unknown policy": ("elastic.metrics.default", "gradient", "elastic.metrics.default"),
    "an unknown name": ("elastic.cooldown_s", 1, "cool_down_s"),
}


@pytest.mark.parametrize(("name", "value", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(name: str, value: object, said: str) -> None:
    """The refusal names the setting, or the one that was probably meant."""
    with pytest.raises(ConfigError, match=said):
        Settings.load(overrides={name: value})
