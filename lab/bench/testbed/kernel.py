"""Find out what this machine can do, by doing it once in a namespace of its own.

Why by trial: whether an option is built in, a module, or forbidden in a container cannot be seen from version numbers.
Rule: what is missing for good is one sentence that names the package, the right or the kernel option; the delay alone
has two ways (netem, or `lab.bench.testbed.relay`), and the report says which was taken.
"""

import os
import shutil
import sys

import msgspec

from lab.bench.testbed.commands import ip_in, run_in, tc_in
from lab.bench.testbed.errors import BedError, BedUnavailable
from lab.bench.testbed.record import PREFIX, make, new_run, remove_all

_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "iptables": "iptables"}
"""command → Debian's package"""
_TRIALS = (
    ("veth (CONFIG_VETH)", ip_in, "link add a0 type veth peer name b0"),
    ("bridges (CONFIG_BRIDGE)", ip_in, "link add br0 type bridge"),
    ("token buckets (CONFIG_NET_SCH_TBF)", tc_in, "qdisc add dev a0 root tbf rate 100mbit burst 16kb latency 30ms"),
)
"""what, how, command"""


class Kernel(msgspec.Struct, frozen=True):
    """What is there besides the necessary."""

    netem: bool
    """Delay by the kernel; else by the relay."""

    @property
    def delay_by(self) -> str:
        """For the report."""
        return "netem" if self.netem else "relay (this kernel has no netem)"


def examined() -> Kernel:
    """Try everything. Errors: BedUnavailable with what is missing and what to do."""
    if sys.platform != "linux":
        raise BedUnavailable(f"the test bed needs Linux's network namespaces; this is {sys.platform}")
    for command, package in _PACKAGES.items():
        if shutil.which(command) is None:
            raise BedUnavailable(f"{command} is missing: install the package {package} (apt-get install {package})")
    if os.geteuid() != 0:
        raise BedUnavailable("making network namespaces needs root: run it with sudo")
    run_id = new_run()
    name = f"{PREFIX}-{run_id}-trial"
    try:
        try:
            make(name)
        except BedError as error:
            raise BedUnavailable(
                f"network namespaces cannot be made here (CONFIG_NET_NS, CAP_SYS_ADMIN): {error}"
            ) from error
        for what, do, command in _TRIALS:
            try:
                do(name, [command])
            except BedError as error:
                raise BedUnavailable(f"the kernel refuses {what}: {error}") from error
        try:
            rule = "-m statistic --mode random --probability 0.5 -j DROP"
            run_in(name, "iptables", "-A", "INPUT", *rule.split())
        except BedError as error:
            raise BedUnavailable(f"random loss is refused (CONFIG_NETFILTER_XT_MATCH_STATISTIC): {error}") from error
        try:
            tc_in(name, ["qdisc add dev b0 root netem delay 1ms"])
        except BedError:
            return Kernel(netem=False)
        return Kernel(netem=True)
    finally:
        remove_all(run_id)
