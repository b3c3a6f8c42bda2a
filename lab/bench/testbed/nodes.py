"""Nine nodes of one zone as network namespaces on one bridge, each with a process of ours inside.

The bridge is in a namespace of its own (`switch`), so nothing at all is added to the machine's own network. Node names
are the paper's zone D: node28 … node36. Interfaces carry MTU-sized packets only (segmentation offload is off), because
a rule that drops one packet of 64 kB would not be the loss that a network has. Neighbours are entered by hand: address
resolution does not retry the way TCP does, and a lost answer would stop a link for a second.
"""

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec

from lab.bench.testbed.commands import ip_in
from lab.bench.testbed.node_process import NodeProcess
from lab.bench.testbed.record import PREFIX, make, new_run, remove_all

NODES: Final = tuple(f"node{number}" for number in range(28, 37))
_SUBNET: Final = "10.77.0"
_SIOCETHTOOL: Final = 0x8946
_OFFLOADS: Final = {"tx checksum": 0x17, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
"""what → number of ethtool's request that sets it"""


def address(node: str) -> str:
    """Its IPv4 address.

    >>> address("node28")
    '10.77.0.28'
    """
    return f"{_SUBNET}.{node.removeprefix('node')}"


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
    processes: dict[str, NodeProcess]
    """node → the process inside it"""

    def namespace(self, node: str) -> str:
        """Name of a node's namespace."""
        return f"{PREFIX}-{self.run_id}-{node}"

    @property
    def switch(self) -> str:
        """Name of the namespace with the bridge."""
        return self.namespace("switch")


@contextmanager
def bed(*, nodes: tuple[str, ...] = NODES) -> Iterator[Bed]:
    """Nodes that can reach each other, without any shaping yet; everything is removed at the end, whatever the end is.

    Errors: BedError; what was made until then is removed.
    """
    with ExitStack() as stack:
        made = Bed(new_run(), {})
        stack.callback(remove_all, made.run_id)
        make(made.switch)
        ip_in(made.switch, ["link set lo up", "link add br0 type bridge", "link set br0 up"])
        for node in nodes:
            _add(made, node, nodes)
        for node in nodes:
            process = NodeProcess(made.namespace(node), node, address(node))
            stack.callback(process.close)
            made.processes[node] = process
        for process in made.processes.values():
            process.wait_ready()
        yield made


def _add(made: Bed, node: str, nodes: tuple[str, ...]) -> None:
    name = made.namespace(node)
    make(name)
    ip_in(
        made.switch,
        [
            f"link add {port(node)} type veth peer name eth0 netns {name}",
            f"link set {port(node)} master br0",
            f"link set {port(node)} up",
        ],
    )
    others = [one for one in nodes if one != node]
    ip_in(
        name,
        [
            "link set lo up",
            f"link set eth0 address {hardware_address(node)}",
            f"addr add {address(node)}/24 dev eth0",
            "link set eth0 up",
            *(f"neigh add {address(one)} lladdr {hardware_address(one)} dev eth0 nud permanent" for one in others),
        ],
    )


def small_packets_only(interface: str = "eth0") -> None:
    """Let no packet above the MTU leave or enter an interface of the caller's namespace. Errors: OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request in _OFFLOADS.values():
            value = bytearray(struct.pack("=II", request, 0))
            place = (_address_of(value)).to_bytes(8, "little")
            fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16s8s", interface.encode(), place))


def _address_of(value: bytearray) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(value))
