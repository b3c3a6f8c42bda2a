"""By what a run is known to be another run of the same job: its namespace, its name's stem, and its pods' template.

Why both name and template: a CronJob or a script that submits a job again keeps the name's stem while the image is
renewed, and the same command may come under any name. Neither says what the job is about in clear: what is stored are
hashes. Rule: nothing is ever learned from another namespace, whose users could put in what they like.
"""

import re
from hashlib import blake2b
from typing import Final, NamedTuple

_RANDOM: Final = r"[bcdfghjklmnpqrstvwxz2456789]{5}"  # What the API server appends for `generateName`
_MADE: Final = re.compile(rf"(?:\d+|{_RANDOM}|(?=[a-f]*\d)[0-9a-f]{{8,40}}|[0-9a-f]{{4}})", re.ASCII)
_MOST_PARTS: Final = 8  # Of a name that are left out at its end: a UUID has five, a date and a time up to six
_HASH_BYTES: Final = 6


class Fingerprint(NamedTuple):
    """Equal for runs of the same job. Name and template are hashes of 12 letters."""

    namespace: str
    name: str
    template: str


def fingerprint(namespace: str, kind: str, name: str, template: str) -> Fingerprint:
    """Of a run that object `name` of this kind made from pods of this template; `template`: any text.

    >>> one, again = (fingerprint("a", "Job", f"nightly-{number}", "t") for number in (29_500_000, 29_501_440))
    >>> one == again, one == fingerprint("b", "Job", "nightly", "t"), len(one.name)
    (True, False, 12)
    """
    return Fingerprint(namespace, _hash(f"{kind}\0{stem(name)}"), _hash(template))


def stem(name: str) -> str:
    """A name without what is made for each run: numbers, dates, `generateName` suffixes, UUIDs. Never empty.

    >>> [stem(name) for name in ("nightly-29500000", "train-x7k2p", "bert-large-2026-11-26-1", "resnet", "r50-v2")]
    ['nightly', 'train', 'bert-large', 'resnet', 'r50-v2']
    >>> stem("job-6ba7b810-9dad-11d1-80b4-00c04fd430c8"), stem("20261126")
    ('job', '20261126')
    """
    parts = name.split("-")
    for _ in range(_MOST_PARTS):
        if len(parts) < 2 or not _MADE.fullmatch(parts[-1]):
            break
        parts.pop()
    return "-".join(parts)


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).hexdigest()
