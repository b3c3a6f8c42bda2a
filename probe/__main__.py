"""`python -m probe`, which is `netgang-probe`: start the agent, end it at SIGTERM."""

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence

from probe import settings
from probe.agent import ProbeAgent
from probe.burst import BurstRunner
from probe.exchange import Exchange, Netgang
from probe.udp import MachineClock, UdpSocket

_log = logging.getLogger("netgang.probe")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent; its exit code (`probe.settings.EPILOG`)."""
    given = settings.read(sys.argv[1:] if argv is None else argv, os.environ)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    try:
        netgang = Netgang(given.url, token_file=given.token_file, ca_file=given.ca_file)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    clock = MachineClock()
    try:
        answering = UdpSocket(given.address, given.port, clock.unix_ns, ttl=True)
        asking = UdpSocket(given.address, 0, clock.unix_ns)
    except OSError as error:
        sys.stderr.write(f"error: {given.address} port {given.port}: {error}\n")
        return 3
    stop, stopped = socket.socketpair()
    stopped.setblocking(False)
    signal.set_wakeup_fd(stopped.fileno())
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: None)
    exchange = Exchange(netgang)
    bursts = BurstRunner(given.address)
    agent = ProbeAgent(given.node, clock, (answering, asking), exchange, stop, bursts=bursts)
    gc.collect()
    gc.freeze()  # what importing left is never looked at again
    _log.info("probe of node %s answers at %s port %d", given.node, given.address, answering.port)
    agent.run()
    bursts.close()
    exchange.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
