"""The agent's settings: options, each also by an environment variable; none is needed twice."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

PORT: Final = 8862  # UDP; STAMP's own, 862, would need a right
POD_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
OPTIONS: Final[Mapping[str, tuple[str, str, str]]] = {
    # option → (environment variable, default as text, help)
    "url": ("NETGANG_PROBE_URL", "", "netgang's reports port, as https://netgang.netgang-system.svc:8891."),
    "node": ("NETGANG_PROBE_NODE", "", "Name of the node that this agent measures (spec.nodeName)."),
    "address": ("NETGANG_PROBE_ADDRESS", "0.0.0.0", "Address to send from and to answer at (status.podIP)."),  # noqa: S104
    "port": ("NETGANG_PROBE_PORT", str(PORT), "UDP port to answer at."),
    "token-file": ("NETGANG_TOKEN_FILE", POD_TOKEN, "Service account token of this pod, read for each report."),
    "ca-file": ("NETGANG_CA_FILE", "", "Authority of netgang's certificate, PEM; without it those of the system."),
}
EPILOG: Final = "Exit code: 0 after SIGTERM or Ctrl-C; 2 for bad settings; 3 the port or the address cannot be had."


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What an agent is given."""

    url: str
    node: str
    address: str
    port: int
    token_file: Path
    ca_file: Path | None


def read(argv: Sequence[str], environment: Mapping[str, str]) -> AgentSettings:
    """Settings of a command line. Ends the program with 0 after --help and 2 for what is wrong, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="netgang-probe", description="Measure this node's links and report them to netgang.", epilog=EPILOG,
        allow_abbrev=False,
    )  # fmt: skip
    for name, (variable, default, words) in OPTIONS.items():
        given = environment.get(variable) or default
        text = f"{words} Environment: {variable}; default: {default or 'none'}."
        parser.add_argument(f"--{name}", default=given, help=text)
    said: dict[str, Any] = vars(parser.parse_args(argv))
    for name in ("url", "node"):
        if not said[name]:
            parser.error(f"--{name} or {OPTIONS[name][0]} must be given")
    try:
        ip_address(said["address"])
    except ValueError:
        parser.error(f"--address: {said['address']!r} is no IP address")
    if not said["port"].isascii() or not said["port"].isdigit() or not 0 <= int(said["port"]) < 65536:
        parser.error(f"--port: {said['port']!r} is no port")
    ca_file = Path(said["ca_file"]) if said["ca_file"] else None
    return AgentSettings(
        said["url"], said["node"], said["address"], int(said["port"]), Path(said["token_file"]), ca_file
    )
