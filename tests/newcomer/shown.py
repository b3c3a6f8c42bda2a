"""Compare what a document shows with what was printed.

Rule: everything that was printed must be shown, or be covered by a `…`: alone on a line it stands for any number of
lines, inside a line for any characters and the blanks beside it. Runs of blanks, and of the lines that tables are drawn
with, count as one, because columns are as wide as what happens to be in them; blanks at the end of lines, and empty
lines at both ends, do not count.
"""

import re
from collections.abc import Sequence

ANYTHING = "…"


def is_shown(printed: str, shown: Sequence[str], *, may_go_on: bool = False) -> bool:
    r"""Whether `printed` is what `shown` says; with `may_go_on` more may have been printed behind it.

    >>> is_shown("p   1/1  Running  17s\n", ["p 1/1 Running …"]), is_shown("p 1/1 Pending 3s", ["p 1/1 Running …"])
    (True, False)
    >>> is_shown("one\ntwo\n", ["one"]), is_shown("one\ntwo\n", ["one"], may_go_on=True)
    (False, True)
    """
    wanted = "".join(map(_pattern, _trimmed(shown))) + (r"(?:.*\n)*" if may_go_on else "")
    return re.fullmatch(wanted, "".join(f"{line}\n" for line in _trimmed(printed.splitlines()))) is not None


def _pattern(line: str) -> str:
    if line.strip() == ANYTHING:
        return r"(?:.*\n)*?"
    return ".*?".join(re.escape(part) for part in re.split(f" ?{ANYTHING} ?", line)) + r"\n"


def _plain(line: str) -> str:
    """Runs of blanks and of one drawn line as one, nothing at the end.

    >>> _plain("┏━━━━━━┳━━━━┓  a   b  ")
    '┏━┳━┓ a b'
    """
    return re.sub(r"\s+", " ", re.sub(r"([─━═])\1+", r"\1", line)).rstrip()


def _trimmed(lines: Sequence[str]) -> list[str]:
    """In plain form, without empty lines at the beginning and the end."""
    text = "\n".join(map(_plain, lines)).strip("\n")
    return text.split("\n") if text else []
