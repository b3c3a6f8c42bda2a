"""What a person said about where netgang is, and where that is in a cluster: NAMESPACE/[https:]NAME[:PORT].

Light: every command imports it before it knows whether it will ask.
"""

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Final

from extender.errors import ConfigError

DEFAULT: Final = "netgang-system/netgang:8889"
_FORM: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]{1,63})/((?P<scheme>https?):)?(?P<name>[a-z0-9-]{1,63})(:(?P<port>[a-z0-9-]{1,15}))?"
)


class Through(StrEnum):
    """How the API server leads to netgang."""

    PORT_FORWARD = "port-forward"
    SERVICE_PROXY = "service-proxy"


@dataclass(frozen=True, slots=True)
class Said:
    """The options, as they were given; `token` is that of the environment."""

    url: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    service: str | None = None
    through: str | None = None
    token: str = ""

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the options that were given."""
        names = (one.name for one in fields(self) if one.name != "token" and getattr(self, one.name) is not None)
        return tuple(f"--{name.replace('_', '-')}" for name in names)

    @property
    def in_cluster(self) -> tuple[str, ...]:
        """Those of them that belong to the way through the API server."""
        ways = ("--kubeconfig", "--context", "--service", "--through")
        return tuple(name for name in self.given if name in ways)


@dataclass(frozen=True, slots=True)
class Target:
    """A Service's name and port, which are also the name and a port of its pods."""

    namespace: str
    name: str
    port: str
    tls: bool

    @property
    def url(self) -> str:
        """Its address as its certificate names it.

        >>> target("netgang-system/https:netgang:8889").url
        'https://netgang.netgang-system.svc:8889'
        """
        port = f":{self.port}" if self.port.isdigit() else ""
        return f"{'https' if self.tls else 'http'}://{self.name}.{self.namespace}.svc{port}"

    @property
    def proxied(self) -> str:
        """How services/proxy of the API server names it.

        >>> target("netgang-system/https:netgang").proxied
        '/api/v1/namespaces/netgang-system/services/https:netgang:8889/proxy'
        """
        scheme = "https:" if self.tls else ""
        return f"/api/v1/namespaces/{self.namespace}/services/{scheme}{self.name}:{self.port}/proxy"


def target(text: str) -> Target:
    """Read `text`; the port is 8889 if none is said. Errors: ConfigError.

    >>> target("ops/netgang:9000")
    Target(namespace='ops', name='netgang', port='9000', tls=False)
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(f"--service {text!r}: write NAMESPACE/NAME, NAMESPACE/NAME:PORT or NAMESPACE/https:NAME:PORT")
    return Target(found["namespace"], found["name"], found["port"] or "8889", found["scheme"] == "https")
