"""Nine nodes of one zone as network namespaces on one bridge.

The bridge is in a namespace of its own (`switch`), so nothing at all is added to the machine's own network. Node names
are the paper's zone D: node28 … node36. Interfaces carry MTU-sized packets only (segmentation offload is off), because
a rule that drops one packet of 64 kB would not be the loss that a network has. Neighbours are entered by hand: address
resolution does not retry the way TCP does, and a lost answer would stop a link for a second.
"""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Final

import msgspec

from lab.bench.testbed.commands import (
    PREFIX,
    BedError,
    BedUnavailable,
    in_namespace,
    ip_in,
    make,
    new_run,
    remove,
    remove_all,
    run_in,
    tc_in,
)
from lab.testbed.parts.pod_process import Place

NODES: Final = tuple(f"node{number}" for number in range(28, 37))
_PACKAGES = {"ip": "iproute2", "tc": "iproute2", "iptables": "iptables"}
"""command → Debian's package"""
_BUCKET = "qdisc add dev a0 root tbf rate 100mbit burst 16kb latency 30ms"
_LOSS = "iptables -t raw -A PREROUTING -m statistic --mode random --probability 0.5 -j DROP"
_TRIALS: Final[tuple[tuple[str, Callable[[str], object]], ...]] = (
    ("network namespaces (CONFIG_NET_NS, CAP_SYS_ADMIN)", make),
    ("veth (CONFIG_VETH)", lambda name: ip_in(name, ["link add a0 type veth peer name b0"])),
    ("bridges (CONFIG_BRIDGE)", lambda name: ip_in(name, ["link add br0 type bridge"])),
    ("token buckets (CONFIG_NET_SCH_TBF)", lambda name: tc_in(name, [_BUCKET])),
    ("random loss (CONFIG_NETFILTER_XT_MATCH_STATISTIC)", lambda name: run_in(name, *_LOSS.split())),
)
"""What the kernel must have, and how that is tried in a namespace; the first makes it"""
SUBNET: Final = "10.77.0"
_SIOCETHTOOL: Final = 0x8946
_OFFLOADS: Final = {"tx checksum": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
"""what → number of ethtool's request that sets it"""


def address(node: str) -> str:
    """Its IPv4 address.

    >>> address("node28")
    '10.77.0.28'
    """
    return f"{SUBNET}.{node.removeprefix('node')}"


def pod_addresses(node: str) -> str:
    """The range of its pods' addresses.

    >>> pod_addresses("node28")
    '10.78.28.0/24'
    """
    return f"10.78.{node.removeprefix('node')}.0/24"


def hardware_address(node: str) -> str:
    """Its Ethernet address, made from its number.

    >>> hardware_address("node28")
    '02:00:0a:4d:00:1c'
    """
    return f"02:00:0a:4d:00:{int(node.removeprefix('node')):02x}"


def port(node: str) -> str:
    """Name of the switch's port for it.

    >>> port("node28")
    'p28'
    """
    return f"p{node.removeprefix('node')}"


class Bed(msgspec.Struct, frozen=True):
    """The nodes while they are there."""

    run_id: str
    nodes: tuple[str, ...]
    _serial: Iterator[int] = msgspec.field(default_factory=count, name="serial")
    _taken: set[str] = msgspec.field(default_factory=set, name="taken")

    @property
    def places(self) -> dict[str, Place]:
        """Node → where what is to be in its own network runs."""
        return {node: Place(self.namespace(node), address(node), address(node)) for node in self.nodes}

    @contextmanager
    def pod_place(self, node: str) -> Iterator[Place]:
        """A network for a pod of this node until the end of the block. Errors: BedError."""
        addresses = (pod_addresses(node).replace(".0/24", f".{2 + number % 250}") for number in self._serial)
        own = next((one for one in islice(addresses, 250) if one not in self._taken), None)
        if own is None:
            raise BedError(f"{node} has 250 pods: no address is left")
        number = own.rpartition(".")[2]
        name, link, host = self.namespace(f"{node}-{number}"), f"pod{number}", address(node)
        with ExitStack() as undo:
            self._taken.add(own)
            undo.callback(self._taken.remove, own)
            make(name)
            undo.callback(remove, name)
            pair = f"link add {link} type veth peer name eth0 netns {name}"
            ip_in(self.namespace(node), [pair])
            undo.callback(ip_in, self.namespace(node), [f"link delete {link}"])
            ip_in(self.namespace(node), [f"link set {link} up", f"route add {own} dev {link}"])
            way = [f"route add {host} dev eth0", f"route add default via {host}"]
            ip_in(name, ["link set lo up", f"addr add {own}/32 dev eth0", "link set eth0 up", *way])
            in_namespace(name, small_packets_only)
            yield Place(name, own, host)

    def namespace(self, node: str) -> str:
        """Name of a node's namespace."""
        return f"{PREFIX}-{self.run_id}-{node}"

    @property
    def switch(self) -> str:
        """Name of the namespace with the bridge."""
        return self.namespace("switch")


def examine() -> None:
    """Do once all that a bed needs, in a namespace of its own. Errors: BedUnavailable with what is missing.

    Why by trial: whether an option is built in, a module, or forbidden in a container cannot be seen from versions.
    """
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
        for what, do in _TRIALS:
            try:
                do(name)
            except BedError as error:
                raise BedUnavailable(f"the kernel refuses {what}: {error}") from error
    finally:
        remove_all(run_id)


@contextmanager
def bed(*, nodes: tuple[str, ...] = NODES) -> Iterator[Bed]:
    """Nodes that can reach each other, without any shaping yet; everything is removed at the end, whatever the end is.

    Errors: BedError; what was made until then is removed.
    """
    with ExitStack() as stack:
        made = Bed(new_run(), nodes)
        stack.callback(remove_all, made.run_id)
        make(made.switch)
        ip_in(made.switch, ["link set lo up", "link add br0 type bridge", "link set br0 up"])
        for node in nodes:
            _add(made, node)
        yield made


def _add(made: Bed, node: str) -> None:
    name = made.namespace(node)
    make(name)
    pair = f"link add {port(node)} type veth peer name eth0 netns {name}"
    ip_in(made.switch, [pair, f"link set {port(node)} master br0", f"link set {port(node)} up"])
    own = [f"link set eth0 address {hardware_address(node)}", f"addr add {address(node)}/24 dev eth0"]
    others = [one for one in made.nodes if one != node]
    known = (f"neigh add {address(one)} lladdr {hardware_address(one)} dev eth0 nud permanent" for one in others)
    ways = (f"route add {pod_addresses(one)} via {address(one)}" for one in others)
    ip_in(name, ["link set lo up", *own, "link set eth0 up", *known, *ways])
    in_namespace(name, small_packets_only)
    in_namespace(name, lambda: Path("/proc/sys/net/ipv4/ip_forward").write_text("1"))


def small_packets_only(interface: str = "eth0") -> None:
    """Let no packet above the MTU leave or enter an interface of the caller's namespace. Errors: OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request in _OFFLOADS.values():
            value = bytearray(struct.pack("=II", request, 0))
            place = ctypes.addressof(ctypes.c_char.from_buffer(value)).to_bytes(8, "little")
            fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16s8s", interface.encode(), place))
