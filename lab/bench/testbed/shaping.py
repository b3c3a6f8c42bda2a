"""Make the network what a setting says: token buckets, random loss, delay.

- Rate: a token bucket (tc tbf) on both ends of each node's link; 100 Mbit/s, or the impaired nodes' lower rate.
- Loss: each other node drops what comes from an impaired one with this probability (iptables, match `statistic`): real
  packets are lost, and TCP's retransmissions are the kernel's. It is done where packets arrive because a rule where
  they leave would inform the sender.
- Delay: a relay (`relay`) between the impaired node's port and the bridge holds whole Ethernet frames back; the node's
  own TCP meets a late network. netem would do it in the kernel, but not every kernel has it.

Rule: `shaped` begins from links without impairment and ends with them, so settings cannot add up.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from lab.bench.testbed.cases import BASE_BPS, Impairment, Setting
from lab.bench.testbed.commands import run_in, tc_in
from lab.bench.testbed.nodes import Bed, address, pod_addresses, port
from lab.bench.testbed.relay import relayed

_BURST: Final = "16kb"
"""About ten packets: what a bucket saves up must be small beside the smallest gradient."""
_QUEUE: Final = "40ms"


def set_rates(bed: Bed, rates_bps: dict[str, int]) -> None:
    """Set the rate of each of these nodes' links, both directions."""
    switch = []
    for node, rate_bps in rates_bps.items():
        bucket = f"root handle 1: tbf rate {rate_bps}bit burst {_BURST} latency {_QUEUE}"
        tc_in(bed.namespace(node), [f"qdisc replace dev eth0 {bucket}"])
        switch.append(f"qdisc replace dev {port(node)} {bucket}")
    tc_in(bed.switch, switch)


def loss_rules(sources: Iterable[str], loss_ratio: float) -> str:
    """What iptables-restore reads: packets of each source, for the node or its pods, are dropped with this probability.

    >>> print(loss_rules(["10.77.0.33"], 0.05))
    *raw
    :PREROUTING ACCEPT [0:0]
    -A PREROUTING -s 10.77.0.33 -m statistic --mode random --probability 0.05 -j DROP
    COMMIT
    <BLANKLINE>
    """
    drop = f"-m statistic --mode random --probability {loss_ratio:g} -j DROP"
    rules = [f"-A PREROUTING -s {one} {drop}" for one in sources]
    return "\n".join(("*raw", ":PREROUTING ACCEPT [0:0]", *rules, "COMMIT", ""))


def set_loss(bed: Bed, loss_ratio: float, loses: Callable[[str, str], bool]) -> None:
    """Set the loss of what a node and its pods send another: this, where it `loses`, and elsewhere none."""
    for node in bed.nodes:
        others = [one for one in bed.nodes if one != node and loss_ratio > 0.0 and loses(one, node)]
        sources = [source for one in others for source in (address(one), pod_addresses(one))]
        run_in(bed.namespace(node), "iptables-restore", given=loss_rules(sources, loss_ratio))


@contextmanager
def shaped(bed: Bed, setting: Setting) -> Iterator[None]:
    """The network in a setting's state. Errors: BedError."""
    impaired = setting.impaired
    clean = dict.fromkeys(bed.nodes, BASE_BPS)
    set_rates(bed, clean)
    with ExitStack() as stack:
        match setting.impairment:
            case Impairment.BANDWIDTH:
                stack.callback(set_rates, bed, clean)
                set_rates(bed, dict.fromkeys(impaired, round(setting.value * 1e6)))
            case Impairment.LOSS:
                stack.callback(set_loss, bed, 0.0, lambda *_: False)
                set_loss(bed, setting.value / 100.0, lambda one, _: one in impaired)
            case Impairment.DELAY:
                stack.enter_context(relayed(bed, impaired, delay_ms=setting.value))
        yield
