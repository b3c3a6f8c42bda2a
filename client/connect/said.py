"""What a person said about where netgang is. Light: every command imports it before it knows whether it will ask."""

from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path


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
