"""Runs of hostile objects and texts, and what came of them."""

import gc
import random
import time
from collections import Counter
from dataclasses import dataclass, field

from extender.runtime.memory import give_back, resident_bytes
from tests.fuzz.consistency import assert_consistent
from tests.fuzz.followed import Followed
from tests.fuzz.mutate import hostile_text, mutated, recorded
from tests.fuzz.notes import READERS

_AT_ONCE = 50


@dataclass(slots=True)
class Figures:
    """What a run showed."""

    objects: int = 0
    mebibytes: float = 0.0
    seconds: float = 0.0
    """CPU, of reading alone"""
    slowest_ms: float = 0.0
    """The mean of the slowest batch"""
    slowest: str = ""
    unreadable: Counter[str] = field(default_factory=Counter)
    """Kind → readings that failed"""
    relists_and_errors: dict[str, tuple[int, int]] = field(default_factory=dict)
    grown_mebibytes: float = 0.0
    """What the process holds, from the first tenth of the run to its end"""

    @property
    def mean_ms(self) -> float:
        """Of one object."""
        return self.seconds * 1000.0 / max(self.objects, 1)


async def read_objects(count: int, *, seed: int) -> Figures:
    """So many hostile objects through the reflectors of a running netgang."""
    rng, kinds, found = random.Random(seed), recorded(), Figures()
    begun_mib = 0.0
    async with Followed() as followed:
        while found.objects < count:
            kind = rng.choice(list(kinds))
            batch = [mutated(rng, kinds[kind]) for _ in range(min(_AT_ONCE, count - found.objects))]
            begun_s = time.process_time()
            await followed.take(kind, batch)
            took_s = time.process_time() - begun_s
            followed.cache.snapshot()
            found.objects += len(batch)
            found.mebibytes += sum(map(len, batch)) / 2**20
            found.seconds += took_s
            if took_s * 1000.0 / len(batch) > found.slowest_ms:
                found.slowest_ms, found.slowest = took_s * 1000.0 / len(batch), kind
            await followed.take(kind, batch, what="DELETED")
            if found.objects <= count // 10:
                del batch
                begun_mib = _mebibytes()
        found.grown_mebibytes = _mebibytes() - begun_mib
        found.relists_and_errors = followed.relists_and_errors()
        found.unreadable.update({kind: one.status().unreadable for kind, one in followed.reflectors.items()})
        assert_consistent(followed.cache)
    return found


def read_texts(count: int, *, seed: int) -> Figures:
    """So many hostile texts through each reader of annotations and notes; whatever they raise but ValueError leaves."""
    rng, found = random.Random(seed), Figures()
    begun_mib = 0.0
    for number in range(count):
        text = hostile_text(rng)
        found.mebibytes += len(text) / 2**20
        for name, reader in READERS.items():
            given = reader.given(text)
            begun_s = time.process_time()
            try:
                reader.read(given)
            except ValueError:
                found.unreadable[name] += 1
            took_s = time.process_time() - begun_s
            found.objects += 1
            found.seconds += took_s
            if took_s * 1000.0 > found.slowest_ms:
                found.slowest_ms, found.slowest = took_s * 1000.0, name
        if number <= count // 10:
            begun_mib = _mebibytes()
    found.grown_mebibytes = _mebibytes() - begun_mib
    return found


def _mebibytes() -> float:
    """What the process holds; what was freed is given back before it is looked at."""
    gc.collect()
    give_back()
    return resident_bytes() / 2**20
