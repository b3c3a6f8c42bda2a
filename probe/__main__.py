"""`python -m probe`, which is `netgang-probe`: read its options, start the agent, end it at SIGTERM.

Each option may also be an environment variable; none is needed twice.
"""

import argparse
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from probe.agent import ProbeAgent
from probe.burst import BurstRunner
from probe.exchange import Exchange
from probe.udp import MachineClock, UdpSocket

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


def read(argv: Sequence[str], environment: Mapping[str, str]) -> argparse.Namespace:
    """Settings of a command line. Ends the program with 0 after --help and 2 for what is wrong, as argparse does."""
    parser = argparse.ArgumentParser(
        prog="netgang-probe",
        description="Measure this node's links and report them to netgang.",
        epilog=EPILOG,
        allow_abbrev=False,
    )
    for name, (variable, default, words) in OPTIONS.items():
        parser.add_argument(
            f"--{name}", default=environment.get(variable) or default,
            help=f"{words} Environment: {variable}; default: {default or 'none'}.",
        )  # fmt: skip
    given = parser.parse_args(argv)
    for name in ("url", "node"):
        if not getattr(given, name):
            parser.error(f"--{name} or {OPTIONS[name][0]} must be given")
    try:
        ip_address(given.address)
    except ValueError:
        parser.error(f"--address: {given.address!r} is no IP address")
    if not given.port.isascii() or not given.port.isdigit() or not 0 <= int(given.port) < 65536:
        parser.error(f"--port: {given.port!r} is no port")
    return given


_log = logging.getLogger("netgang.probe")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; its exit code (`EPILOG`)."""
    given = read(sys.argv[1:] if argv is None else argv, os.environ)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        ca_file = Path(given.ca_file) if given.ca_file else None
        exchange = Exchange(given.url, token_file=Path(given.token_file), ca_file=ca_file)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    try:
        answering = UdpSocket(given.address, int(given.port))
        asking = UdpSocket(given.address, 0)
    except OSError as error:
        sys.stderr.write(f"error: {given.address} port {given.port}: {error}\n")
        return 3
    stop, stopped = socket.socketpair()
    stopped.setblocking(False)
    signal.set_wakeup_fd(stopped.fileno())
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: None)
    bursts = BurstRunner(given.address)
    agent = ProbeAgent(given.node, MachineClock(), answering, asking, exchange, bursts, stop)
    gc.collect()
    gc.freeze()  # what importing left is never looked at again
    _log.info("probe of node %s answers at %s port %d", given.node, given.address, answering.port)
    agent.run()
    bursts.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
