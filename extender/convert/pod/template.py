"""What pods of one template have in common, as one short text: former runs of a job are found by it.

What counts: image, command and arguments of each container, the pod's requests, and labels that name the application.
What does not: names, environment, volumes and other labels, in which controllers put what differs from run to run.
Rule: only a hash is kept, so that a tenant's long command costs no memory (docs/safety.md S21).
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from typing import Final, TypeAlias

import msgspec

from extender.convert.decode import decode
from scoring.model import MemberClass

Containers: TypeAlias = tuple[tuple[str, bytes, bytes], ...]  # Of each its image, and raw JSON of command and arguments
_LABELS: Final = ("app", "app.kubernetes.io/name", "app.kubernetes.io/component", "app.kubernetes.io/part-of")
_HASH_BYTES: Final = 8
_KEY_BYTES: Final = 16 * 1024
_texts = msgspec.json.Decoder(list[str])


def template_of(containers: Containers, member_class: MemberClass, labels: Mapping[str, str]) -> str:
    """16 letters. Cost: 2 µs, and linear once per template. ValueError: a command is no list of texts.

    >>> from tests.builders import pod
    >>> one, kind = (("train:1", b'["python"]', b""),), pod("p").member_class
    >>> texts = [template_of(one, kind, labels) for labels in ({}, {"controller-uid": "u"}, {"app": "bert"})]
    >>> texts[0] == texts[1] != texts[2]
    True
    """
    named = tuple([f"{name}={labels[name]}" for name in _LABELS if name in labels])
    if sum(len(image) + len(command) + len(arguments) for image, command, arguments in containers) > _KEY_BYTES:
        return _hash.__wrapped__(containers, member_class, named)
    return _hash(containers, member_class, named)


@lru_cache(maxsize=64)
def _hash(containers: Containers, member_class: MemberClass, named: tuple[str, ...]) -> str:
    """Runs once per template, as its pods give the same bytes; few are kept, as pods of one job come together."""
    parts = [f"{name}={amount}" for name, amount in member_class.requests]
    parts += named
    for image, *lists in containers:
        parts += ["image", image]
        for raw in lists:
            parts += ["list", *(decode(_texts, raw, what="command or args") if raw else ())]
    text = "".join([f"{len(part)}:{part}" for part in parts])  # so that no part can be shifted against another
    return intern(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest())
