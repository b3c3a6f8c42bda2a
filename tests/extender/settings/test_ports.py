"""Settings of certificates and ports: what would leave a door open, or shut a probe out, is refused at once."""

from typing import Any

import pytest

from extender.errors import ConfigError
from extender.settings.settings import Settings

PAIR = {"cert_file": "a.crt", "key_file": "a.key"}
GUARDED = {**PAIR, "client_ca_file": "ca.crt"}
ANYWHERE = {"debug_port": 8889, "debug_host": "0.0.0.0"}

WRONG: dict[str, tuple[str, dict[str, Any]]] = {  # case: (what the refusal says, settings)
    "a certificate without its key": ("give both, or none for plain HTTP", {"tls": {"cert_file": "a.crt"}}),
    "a key without its certificate": ("give both, or none for plain HTTP", {"tls": {"key_file": "a.key"}}),
    "authorities without TLS": ("client_ca_file needs cert_file", {"tls": {"client_ca_file": "ca.crt"}}),
    "names that nothing proves": ("client_names needs client_ca_file", {"tls": {**PAIR, "client_names": ["x"]}}),
    "an empty name": ("different names that are not empty", {"tls": {**GUARDED, "client_names": [""]}}),
    "a misspelt name": ("tls.certfile (from the command line): no such setting", {"tls": {"certfile": "x"}}),
    "probes that are shut out": ("give them a port of their own, such as 8890", {"tls": GUARDED}),
    "health at the verbs' port": ("health_port = 8888", {"health_port": 8888}),
    "health at people's port": ("health_port = 8889", {"health_port": 8889, "debug_port": 8889}),
    "every client reads": ("set debug_open: true", ANYWHERE),
    "bursts without agents": ("throughput.enabled needs enabled: true", {"probe": {"throughput": {"enabled": True}}}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "given"), WRONG.values(), ids=WRONG)
def test_an_open_door_is_refused(want: str, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        Settings.load(overrides=given)
    assert want in str(caught.value)


GOOD: dict[str, dict[str, Any]] = {
    "nothing": {},
    "HTTPS": {"tls": PAIR},
    "client certificates": {"tls": GUARDED, "health_port": 8890},
    "names": {"tls": {**GUARDED, "client_names": "a, b"}, "health_port": 0},
    "open because a setting says so": {**ANYWHERE, "debug_open": True},
    "a host without a port": {"debug_host": "0.0.0.0"},
    "health without TLS": {"health_port": 0, "health_host": "0.0.0.0"},
}


@pytest.mark.parametrize("given", GOOD.values(), ids=GOOD)
def test_a_closed_door_is_accepted(given: dict[str, Any]) -> None:
    """Each form that docs/how-to/tls.md names."""
    settings = Settings.load(overrides=given)
    assert all(getattr(settings, name) is not None for name in given)
