"""netgang with other limits than it is served with: `python -m lab.testbed.netgang serve --config=FILE …`.

Why: tests of what lapses cannot wait for minutes. Rule: the file has limits as if they were settings.
"""

import argparse
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec.structs import replace

from extender.bootstrap.common import LIMITS, Limits
from extender.settings.reading import unfold
from extender.settings.settings import Settings
from scoring.scaling.job import MetricOptions

_LIMITS: Final = {  # name as a setting → where it is in Limits
    **{name: name for name in set(Limits.__struct_fields__) - {"bursts"}},
    **{"probe.interval_s": "probe_interval_s", "probe.throughput.size_bytes": "bursts.size_bytes"},
}
_POLICY = ("partial_timeout_s", "exclusion_ttl_s", "spares", "queue.reserve_after_s", "elastic.cool_down_s")
_FIXED: Final[Mapping[str, str]] = {  # name as a setting → where it is among those that are none
    **{name: name for name in (*_POLICY, "probe.service_account")},
    **{"wide_share": "service.wide_share", "service_levels_h": "service.thresholds_h"},
    **{f"elastic.metrics.{name}": f"elastic.metrics.{name}" for name in MetricOptions.fixed},
}


def split(given: Mapping[str, Any], within: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings among these, and the limits, by their names with dots."""
    settings, limits = dict[str, Any](), dict[str, Any]()
    for key, value in given.items():
        name = f"{within}{key}"
        if name in _LIMITS or name in _FIXED:
            limits[name] = value
        elif isinstance(value, Mapping):
            settings[key], more = split(value, f"{name}.")
            limits |= more
        else:
            settings[key] = value
    return settings, limits


def with_limits(settings: Settings, chosen: Mapping[str, Any]) -> tuple[Settings, Limits]:
    """The settings and the limits as they are served, but for these."""
    fixed = unfold({_FIXED[name]: value for name, value in chosen.items() if name in _FIXED})
    limits = reduce(lambda made, name: _with(made, _LIMITS[name], chosen[name]), chosen.keys() & _LIMITS.keys(), LIMITS)
    return settings.changed(fixed, fixed=True), limits


def _with(one: Any, place: str, value: object) -> Any:
    first, _, rest = place.partition(".")
    return replace(one, **{first: _with(getattr(one, first), rest, value) if rest else value})


if __name__ == "__main__":
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import configure_logging

    parser = argparse.ArgumentParser()
    parser.add_argument("serve")
    for name, kind in (("config", Path), ("kubeconfig", str), ("port", int), ("debug-port", int)):
        parser.add_argument(f"--{name}", type=kind)
    given = vars(parser.parse_args())
    chosen, limits = split(yaml.safe_load(given.pop("config").read_text()))
    del given["serve"]
    settings = Settings.load(overrides=chosen | {name: value for name, value in given.items() if value is not None})
    configure_logging(level=settings.log_level.upper(), log_format=settings.log_format)
    settings, served_limits = with_limits(settings, limits)
    run(settings, limits=served_limits)
