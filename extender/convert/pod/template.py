"""What pods of one template have in common, as one short text: former runs of a job are found by it.

What counts: image, command and arguments of each container, the pod's requests, and labels that name the application.
What does not: names, environment, volumes and other labels, in which controllers put what differs between pods and runs.
Rule: only a hash is kept, so that a tenant's long command costs no memory (docs/safety.md S21).
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from sys import intern
from typing import Final

from scoring.model import Resources

_LABELS: Final = ("app", "app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/part-of")
_HASH_BYTES: Final = 8


def template_of(
    containers: Iterable[tuple[str, Sequence[str], Sequence[str]]], requests: Resources, labels: Mapping[str, str]
) -> str:
    """16 letters; `containers`: image, command and arguments of each. Cost: linear, 3 µs for one.

    >>> from scoring.model.resources import NO_RESOURCES
    >>> one = ("train:1", ["python"], ["--lr", "0.1"])
    >>> texts = [template_of([one], NO_RESOURCES, labels) for labels in ({}, {"controller-uid": "u"}, {"app": "bert"})]
    >>> texts[0] == texts[1] != texts[2]
    True
    """
    parts = [f"{name}={amount}" for name, amount in requests]
    parts += [f"{name}={labels[name]}" for name in _LABELS if name in labels]
    for image, command, arguments in containers:
        parts += ["image", image, "command", *command, "args", *arguments]
    text = "".join([f"{len(part)}:{part}" for part in parts])  # so that no part can be shifted against another
    return intern(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest())
