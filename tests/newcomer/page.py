"""What a page to look things up leaves to its reader: names of one's own, files, and what was done before.

An entry that nothing on the page is about is a mistake (tests/contract/docs/test_commands.py).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

Entry = TypeVar("Entry")
_WITHOUT_CLUSTER = frozenset({"network", "plan", "what-if", "explain"})
_MADE_BY_KUBECTL = re.compile(r"\b(?:cluster|nodes)\.json\b")


@dataclass(frozen=True, slots=True)
class Effect:
    """What must come of a command: a `question` for the shell (empty: the command itself), and its `answer`."""

    answer: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The tables of one page; a command in them is as printed, without its comment, or how it begins: `helm …`."""

    words: Mapping[str, str] = field(default_factory=dict)  # what is printed → what this reader has in its place
    files: Mapping[str, str] = field(default_factory=dict)  # file → words of the YAML block that goes there
    before: Mapping[str, str] = field(default_factory=dict)  # command → what the reader has typed by then
    effects: Mapping[str, Effect] = field(default_factory=dict)  # command → what must come of it
    ends: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # command → its exit codes, each time it is typed
    left: Mapping[str, str] = field(default_factory=dict)  # command that is not typed → why

    def types(self, command: str) -> bool:
        """Whether the reader types this command: not what is left, nor what is run elsewhere."""
        return entry(self.left, command) is None and not runs_in_process(command)


def entry(table: Mapping[str, Entry], command: str) -> Entry | None:
    """What a table has for a command.

    >>> [entry({"make run": 1, "helm …": 2}, one) for one in ("make run", "helm install x", "make")]
    [1, 2, None]
    """
    return next((table[key] for key in table if names(key, command)), None)


def names(key: str, command: str) -> bool:
    return command.startswith(key.removesuffix("…")) if key.endswith("…") else key == command


def needs_no_cluster(command: str) -> bool:
    """Whether a command of ours needs no cluster but files, or a running netgang; those run in process.

    >>> needs_no_cluster("netgang plan cluster.json"), needs_no_cluster("netgang doctor"), needs_no_cluster("kubectl x")
    (True, False, False)
    """
    words = command.split()
    if words[:2] == ["netgang", "doctor"]:
        return "--no-cluster" in words
    if words[:2] == ["netgang", "simulate"]:  # the other simulations take long
        return words[2:3] in ([], ["examples/simulate.yaml"])
    return words[:1] == ["netgang"] and words[1] in _WITHOUT_CLUSTER


def runs_in_process(command: str) -> bool:
    """Whether a command is only run in process: what reads kubectl's own output is typed as well."""
    return needs_no_cluster(command) and not _MADE_BY_KUBECTL.search(command)
