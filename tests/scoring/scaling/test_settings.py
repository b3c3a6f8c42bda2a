"""Settings of elastic jobs become the options that decide, value for value."""

from dataclasses import fields

from extender.settings.features import ElasticMetricsSettings, ElasticSettings
from extender.settings.settings import Settings
from scoring.scaling.job import MetricOptions, Options, Wants


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
            "elastic.condition": "levels",
        }
    ).elastic.options()
    assert (found.enabled, found.dry_run, found.decrement, found.increment) == (True, True, None, 5)
    assert (found.cool_down_s, found.condition) == (7.0, "levels")
    assert (found.metrics.default, found.metrics.every_steps) == (Wants.OFF, 50)
