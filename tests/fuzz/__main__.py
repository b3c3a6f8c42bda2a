"""Read hostile objects and texts, and say how that went; exit 1 when something that must hold did not."""

import argparse
import asyncio
import sys

from tests.contract.test_largest_objects import REFERENCE_S, reference_s
from tests.fuzz.runs import read_objects, read_texts


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--objects", type=int, default=50_000)
    asked.add_argument("--texts", type=int, default=5_000, help="each is read by a dozen readers")
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    before_s = reference_s()
    objects = asyncio.run(read_objects(given.objects, seed=given.seed))
    texts = read_texts(given.texts, seed=given.seed)
    for title, found in (("objects", objects), ("texts", texts)):
        unreadable = ", ".join(f"{kind} {count}" for kind, count in sorted(found.unreadable.items()) if count)
        sys.stdout.write(f"{title}: {found.objects}, {found.mean_ms:.3f} ms each; could not be read: {unreadable}\n")
        sys.stdout.write(f"  listed again or failed: {found.relists_and_errors or 'none'}\n")
    limit_ms = max(min(before_s, reference_s()), REFERENCE_S) / REFERENCE_S  # 1 ms where nothing else runs
    sys.stdout.write(f"limit here: {limit_ms:.3f} ms each\n")
    return int(bool(objects.relists_and_errors) or max(objects.mean_ms, texts.mean_ms) >= limit_ms)


if __name__ == "__main__":
    sys.exit(main())
