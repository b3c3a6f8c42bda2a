"""Names of nodes and endpoints: the form in which they are compared, and rules that make one of the other.

Why rules: in sites with a scheme (`node7` is measured by `ps-node7.example.org`) one line says what a table of
thousands would. A pattern matches the whole name; for each metric the first rule that matches decides; a name is
matched once per rule and then remembered, because nodes are mapped again with every change.
"""

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from scoring.ids import NodeName
from scoring.network.matrix import METRICS, Metric

NAME_LIMIT: Final = 253  # Kubernetes has no longer names of nodes; longer texts are not matched


@dataclass(frozen=True, slots=True)
class Rule:
    r"""Nodes whose name matches `pattern` are measured at `endpoint`, in which `\1` stands for the first group."""

    pattern: str  # As the settings accept it: matching a name ends soon (`extender.settings.mapping`)
    endpoint: str
    metrics: Sequence[Metric] = METRICS

    def endpoint_of(self, node: NodeName, metric: Metric) -> str | None:
        """The endpoint's name; `None`: the rule says nothing of this node and metric."""
        if metric not in self.metrics or len(node) > NAME_LIMIT:
            return None
        return matching(self.pattern, self.endpoint, node)


def ruled(rules: Sequence[Rule], node: NodeName, metric: Metric) -> tuple[int, str] | None:
    """The first rule, by its number from 0, that says something of a node, and the endpoint it names."""
    for number, rule in enumerate(rules):
        endpoint = rule.endpoint_of(node, metric)
        if endpoint:
            return number, endpoint
    return None


@lru_cache(maxsize=1 << 16)
def matching(pattern: str, endpoint: str, node: str) -> str | None:
    """What `endpoint` becomes for the node; `None`: the pattern does not match its whole name."""
    found = re.compile(pattern).fullmatch(node)  # re keeps compiled patterns
    return None if found is None else found.expand(endpoint).strip()


@lru_cache(maxsize=1 << 17)
def canonical(name: str) -> str:
    """Write a host name or address in the one form in which names are compared."""
    text = name.strip().rstrip(".").casefold()
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]").partition("%")[0])
    except ValueError:
        return text
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def host_of(name: str) -> tuple[str, bool]:
    """First label of a canonical host name, and whether a domain follows; an address is whole."""
    if ":" in name or name.replace(".", "").isdigit():
        return name, False
    host, _, domain = name.partition(".")
    return host, bool(domain)
