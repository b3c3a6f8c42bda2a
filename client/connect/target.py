"""Where netgang is inside a cluster, as one text: NAMESPACE/[https:]NAME[:PORT]."""

import re
from dataclasses import dataclass
from typing import Final

from extender.errors import ConfigError

DEFAULT: Final = "netgang-system/netgang:8889"
_FORM: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]{1,63})/((?P<scheme>https?):)?(?P<name>[a-z0-9-]{1,63})(:(?P<port>[a-z0-9-]{1,15}))?"
)


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
