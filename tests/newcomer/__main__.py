"""`python3 -m tests.newcomer`: type everything that README's "Try it" and the tutorial print, on this checkout.

Exit code: 0 everything was as printed; 1 something was not, and it is said what; 2 the documents' port is taken.
"""

import sys
import time

from tests.newcomer.walk import DOCUMENTS, Newcomer, NotAsPrinted, PortTaken


def main() -> int:
    began_s = time.monotonic()

    def say(typed: str) -> None:
        sys.stdout.write(f"{time.monotonic() - began_s:7.1f} s  {typed}\n")
        sys.stdout.flush()

    try:
        with Newcomer(say=say) as newcomer:
            for document in DOCUMENTS:
                sys.stdout.write(f"\n{document.path.name}\n")
                newcomer.walk(document)
    except NotAsPrinted as wrong:
        sys.stderr.write(f"\n{wrong}\n")
        return 1
    except PortTaken as taken:
        sys.stderr.write(f"\n{taken}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    say(f"everything was as printed: {len(newcomer.typed)} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
