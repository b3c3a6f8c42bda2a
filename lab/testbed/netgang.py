"""netgang with other limits than it is served with: `python -m lab.testbed.netgang LIMITS --config=FILE …`.

Why: tests of what lapses cannot wait for minutes. Rule: they give limits as if they were settings; LIMITS is JSON.
"""

import json
import sys
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from extender.bootstrap.common import LIMITS, Limits

_PLACES: Final[Mapping[str, str]] = {  # name as a setting → where it is in Limits
    **{name: name for name in set(Limits.__struct_fields__) - {"policy", "metrics", "probe", "bursts"}},
    **{name: f"policy.{name}" for name in ("partial_timeout_s", "exclusion_ttl_s", "spares")},
    **{"wide_share": "policy.service.wide_share", "queue.reserve_after_s": "policy.queue.reserve_after_s"},
    **{f"elastic.metrics.{name}": f"metrics.{name}" for name in ("min_interval_s", "settle_steps", "reversal_steps")},
    **{"probe.interval_s": "probe.interval_s", "probe.throughput.size_bytes": "bursts.size_bytes"},
}


def split(given: Mapping[str, Any], within: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings among these, and the limits, by their names with dots."""
    settings, limits = dict[str, Any](), dict[str, Any]()
    for key, value in given.items():
        name = f"{within}{key}"
        if name in _PLACES:
            limits[name] = value
        elif isinstance(value, Mapping):
            settings[key], more = split(value, f"{name}.")
            limits |= more
        else:
            settings[key] = value
    return settings, limits


def limits_of(chosen: Mapping[str, Any]) -> Limits:
    """The limits as they are served, but for these."""
    return reduce(lambda made, name: _with(made, _PLACES[name], chosen[name]), chosen, LIMITS)


def _with(one: Any, place: str, value: object) -> Any:
    first, _, rest = place.partition(".")
    return replace(one, **{first: _with(getattr(one, first), rest, value) if rest else value})


if __name__ == "__main__":
    from extender.bootstrap.serve import run
    from extender.runtime.log_lines import configure_logging
    from extender.settings.settings import Settings

    options = (one.removeprefix("--").partition("=") for one in sys.argv[2:])
    given = {name.replace("-", "_"): value for name, _, value in options}
    settings = Settings.load(Path(given.pop("config")), given)
    configure_logging(level=settings.log_level.upper(), log_format=settings.log_format)
    run(settings, limits=limits_of(json.loads(Path(sys.argv[1]).read_text())))
