"""Read hostile objects and texts, and say how that went; exit 1 when something that must hold did not."""

import argparse
import asyncio
import sys

from tests.fuzz.runs import read_objects, read_texts


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    asked.add_argument("--objects", type=int, default=50_000)
    asked.add_argument("--texts", type=int, default=5_000, help="each is read by a dozen readers")
    asked.add_argument("--seed", type=int, default=1)
    given = asked.parse_args()
    objects = asyncio.run(read_objects(given.objects, seed=given.seed))
    texts = read_texts(given.texts, seed=given.seed)
    for title, found in (("objects", objects), ("texts", texts)):
        unreadable = ", ".join(f"{kind} {count}" for kind, count in sorted(found.unreadable.items()) if count)
        sys.stdout.write(f"{title}: {found.objects}, {found.mean_ms:.3f} ms each; could not be read: {unreadable}\n")
        sys.stdout.write(f"  listed again or failed: {found.relists_and_errors or 'none'}\n")
    return int(bool(objects.relists_and_errors) or objects.mean_ms >= 1.0 or texts.mean_ms >= 1.0)


if __name__ == "__main__":
    sys.exit(main())
