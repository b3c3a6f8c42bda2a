"""What a document tells its reader to do, in order: type these commands, open this page, press Ctrl-C.

Rule: a `sh` block is commands, one a line, all typed into the same terminal; the `text` block that follows is what they
print. A `text` block that begins with `^C` is Ctrl-C in the terminal of the command that stays, and what follows then.
An address of this computer in the prose is opened. A block that is neither a command nor its output, nor YAML or JSON,
is refused in sections that are walked: a command must not hide in a block that nobody runs.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

_FENCE = re.compile(r"^( *)```(\S*)$")
_HEADING = re.compile(r"^#{1,2} (.+)$")
_ADDRESS = re.compile(r"https?://(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/[\w./-]*\w|/)?")
_BESIDE = ("yaml", "json")  # languages of blocks that are to be read, not typed
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|\s#.*""", re.DOTALL)
_LOOP = re.compile(r"(?:^|[;\s])(do|done)(?=$|[;\s])")


class WrongDocument(ValueError):
    """A document that cannot be walked through; says in which line and why."""


class Typed(msgspec.Struct, frozen=True):
    """Commands of one block, from `line` on, and the lines that the document shows below (None: it shows nothing)."""

    line: int
    commands: tuple[str, ...]
    shown: tuple[str, ...] | None = None


class Opened(msgspec.Struct, frozen=True):
    line: int
    url: str


class Interrupted(msgspec.Struct, frozen=True):
    line: int
    shown: tuple[str, ...]


Step: TypeAlias = Typed | Opened | Interrupted


class Block(msgspec.Struct, frozen=True):
    """A fenced block, or a line of prose, under the last heading of the first two levels."""

    line: int
    heading: str
    language: str
    lines: tuple[str, ...]


def steps(text: str, *, sections: Iterable[str] = ()) -> tuple[Step, ...]:
    r"""The steps of the named sections, or of the whole text. Errors: WrongDocument.

    >>> steps("```sh\nmake run  # stays\n```\n```text\nup\n…\n```\nOpen http://localhost:8888/ then.")
    ... # doctest: +NORMALIZE_WHITESPACE
    (Typed(line=2, commands=('make run  # stays',), shown=('up', '…')),
     Opened(line=8, url='http://localhost:8888/'))
    """
    wanted = frozenset(sections)
    found: list[Step] = []
    after_commands = False  # whether what came last is a block of commands whose output may follow
    for part in parts(text):
        if wanted and part.heading not in wanted:
            continue
        match part.language:
            case "prose":
                urls = [match for line in part.lines for match in _ADDRESS.findall(line)]
                found += [Opened(part.line, url) for url in urls]
                after_commands = after_commands and not any(line.strip() for line in part.lines)
            case "sh":
                found.append(Typed(part.line, tuple(typed_lines(part.lines))))
                after_commands = True
            case "text" if part.lines[:1] == ("^C",):
                found.append(Interrupted(part.line, part.lines[1:]))
                after_commands = False
            case "text" if after_commands and isinstance(last := found[-1], Typed):
                found[-1] = Typed(last.line, last.commands, part.lines)
                after_commands = False
            case language if language not in _BESIDE:
                raise WrongDocument(f"line {part.line}: a block of {language or 'nothing'} that is no command's output")
            case _:
                pass  # to be read, not typed
    return tuple(found)


def bare(command: str) -> str:
    """The command without the comment behind it.

    >>> bare("curl -s localhost:8888/v1/plan   # who goes where")
    'curl -s localhost:8888/v1/plan'
    """
    return re.sub(r"\s+#.*$", "", command, flags=re.DOTALL)


def typed_lines(lines: Iterable[str]) -> Iterator[str]:
    r"""One command a line; comments and empty lines are none.

    A command goes on over a backslash at the end of a line, an open quotation, and an open loop.

    >>> list(typed_lines(["a \\", "  b", "# c", "ls | while read -r d; do", "  echo '", "$d'", "done", "e"]))
    ['a \\\n  b', "ls | while read -r d; do\n  echo '\n$d'\ndone", 'e']
    """
    begun = ""
    for line in lines:
        if not begun and (not line.strip() or line.lstrip().startswith("#")):
            continue
        begun += line
        if _goes_on(begun):
            begun += "\n"
        else:
            yield begun
            begun = ""
    if begun:
        yield begun


def _goes_on(begun: str) -> bool:
    left = _QUOTED.sub(" ", begun)
    words = _LOOP.findall(left)
    return begun.endswith("\\") or "'" in left or '"' in left or words.count("do") > words.count("done")


def fenced(text: str, language: str) -> list[str]:
    return ["".join(f"{line}\n" for line in one.lines) for one in parts(text) if one.language == language]


def parts(text: str) -> Iterator[Block]:
    """Fenced blocks in their languages, without their indentation, and each line between them as a block of prose."""
    heading, opened, language, indent, inside = "", 0, "", 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        fence = _FENCE.match(line)
        if opened and not fence:
            inside.append(line[indent:] if not line[:indent].strip() else line)
        elif opened:
            yield Block(opened + 1, heading, language, tuple(inside))
            opened, inside = 0, []
        elif fence:
            opened, indent, language = number, len(fence[1]), fence[2]
        else:
            if title := _HEADING.match(line):
                heading = title[1]
            yield Block(number, heading, "prose", (line,))
    if opened:
        raise WrongDocument(f"line {opened}: a block that does not end")
