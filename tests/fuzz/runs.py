"""Runs of hostile objects and texts, and what came of them."""

import random
import time
from collections import Counter

import msgspec

from tests.fuzz.consistency import assert_consistent
from tests.fuzz.followed import Followed
from tests.fuzz.mutate import hostile_text, mutated, recorded
from tests.fuzz.notes import READERS

_AT_ONCE = 50


class Figures(msgspec.Struct):
    objects: int = 0
    seconds: float = 0.0  # CPU, of reading alone
    unreadable: Counter[str] = msgspec.field(default_factory=Counter)  # kind → readings that failed
    relists_and_errors: dict[str, tuple[int, int]] = {}

    @property
    def mean_ms(self) -> float:
        return self.seconds * 1000.0 / max(self.objects, 1)


async def read_objects(count: int, *, seed: int) -> Figures:
    rng, kinds, found = random.Random(seed), recorded(), Figures()
    async with Followed() as followed:
        while found.objects < count:
            kind = rng.choice(list(kinds))
            batch = [mutated(rng, kinds[kind]) for _ in range(min(_AT_ONCE, count - found.objects))]
            begun_s = time.process_time()
            await followed.take(kind, batch)
            found.seconds += time.process_time() - begun_s
            found.objects += len(batch)
            followed.cache.snapshot()
            await followed.take(kind, batch, what="DELETED")
        found.relists_and_errors = followed.relists_and_errors()
        found.unreadable.update({kind: one.status().unreadable for kind, one in followed.reflectors.items()})
        assert_consistent(followed.cache)
    return found


def read_texts(count: int, *, seed: int) -> Figures:
    """So many hostile texts through each reader of annotations and notes; whatever they raise but ValueError leaves."""
    rng, found = random.Random(seed), Figures()
    for text in (hostile_text(rng) for _ in range(count)):
        for name, (put, read) in READERS.items():
            given = put(text)
            begun_s = time.process_time()
            try:
                read(given)
            except ValueError:
                found.unreadable[name] += 1
            found.seconds += time.process_time() - begun_s
            found.objects += 1
    return found
