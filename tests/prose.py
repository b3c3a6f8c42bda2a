"""Check plain English: no synonym that the glossary (docs/start/concepts.md) replaces, wherever a person reads.

`RULES` apply to pages, to docstrings, comments and texts in Python, and to comments in YAML; not to code, to names in
backticks, or to texts of one word. `ALLOWED` counts the words that are left; its numbers only fall.
Run: `python -m tests.prose` (`make lint` does), `--counts` for the table.
"""

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RULES = {  # pattern, where a space stands for any white space → what to write instead
    r"(?:no|some|any|every)body|(?:some|any|every)one|no one": "name the component, or: no pod, a gang, each caller",
    r"who|whom|whoever|whomever": "name the component; which, that",
    r"whose turn|(?:say|says|know|knows|decides?) whose|takes? (?:its|their) turn": "the next one; the rank",
    r"tell|tells|telling|told": "report, say, show, write an Event; tell apart: distinguish",
    r"anew": "again; a new one; restart",
    r"for ever": "permanently; without end; never",
    r"let(?:s|ting)? (?:(?:it|them|a|the|this|that|gangs?|pods?|others?|each|more|jobs?|one|lighter) ){0,3}in": "admit",
    r"(?:giv(?:e|es|en|ing)|gave) way": "shrink, be suspended, be preempted",
    r"(?:worked|works?) for no\w+|room worked": "idle",
    r"wish|wishes": "demand",
    r"(?:became|become|becomes) of": "the result, the state",
    r"held (?:room|nodes?|zones?|capacity)|(?:room|nodes?|zones?|capacity) (?:is |are |was )?held": "reserved",
    r"hold(?:s|ing)? (?:the |its |their |no )?(?:room|zones?|capacity|places?)": "reserve, use",
    r"begun": "started",
    r"lest|nought|forthwith|hereby|thereof": "plain words",
    r"keeps? books?|book of its own": "track, record",
}

EXCEPTIONS = (  # allowed although a rule matches: words about people, values of a metric's label
    r"(?:people|persons?|users?|operators?|administrators?|tenants?|readers?|developers?|authors?|teams?),? who",
    r"outcomes?: begun|blocked, begun",
)

PARTS = [
    "README.md",
    "docs",
    "extender",
    "scoring",
    "cli",
    "client",
    "netgang",
    "probe",
    "simulator",
    "bench",
    "testbed",
    "tests",
]
PARTS += ["manifests", "charts", "scheduler-config", "examples"]

ALLOWED: dict[str, int] = {  # directory or file → words left in it; the longest entry that covers a file counts
    "tests/bench": 11,
    "tests/cli": 4,
    "tests/contract": 3,
    "tests/e2e": 23,
    "tests/extender": 114,
    "tests/fakes": 17,
    "tests/fuzz": 1,
    "tests/newcomer": 21,
    "tests/perf": 1,
    "tests/scoring": 95,
    "tests/simulator": 29,
    "tests/testbed": 4,
}

SLACK = 10  # so much lower a count may be than its number, for changes side by side

_SELF = {"tests/prose.py", "tests/test_prose.py"}
_PYTHON = re.compile(
    r"""#[^\n]*|(?P<f>(?<!\w)[fF])?(?:(?P<d>"{3}|'{3})(?:\\.|(?!(?P=d)).)*(?P=d)"""
    r"""|(?P<q>["'])(?:\\.|(?!(?P=q))[^\\\n])*(?P=q))""",
    re.DOTALL,
)
_YAML = re.compile(r"(?:(?<=\s)|^)#[^\n]*", re.MULTILINE)
_CODE = re.compile(r"```.*?```|``?[^`\n]+(?:\n[^`\n]+)?``?|\]\([^)\s]*\)|<[^<>\n]*>", re.DOTALL)
_FIELDS = re.compile(r"\{[^{}]*\}")
_DOCTEST = re.compile(r"^ *>>> (?:[^\n]+\n)*", re.MULTILINE)  # with its output, up to an empty line


def _pattern(rules: Iterable[str]) -> str:
    return "|".join(f"(?:{rule})" for rule in rules).replace(" ", r"(?:\s+#?\s*)")


_WORDS = re.compile(rf"(?<![\w-])(?:{_pattern(RULES)})(?![\w-]|'s \b)", re.IGNORECASE)
_EXCEPTED = re.compile(rf"\b(?:{_pattern(EXCEPTIONS)})\b", re.IGNORECASE)
_EACH = [(re.compile(rf"(?:{_pattern([rule])})\Z", re.IGNORECASE), instead) for rule, instead in RULES.items()]


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    words: str
    instead: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.words}" → {self.instead}'


def findings(path: str, text: str) -> Iterator[Finding]:
    """The words in what people read of `text`; the kind of file is that of `path`."""
    if _WORDS.search(text) is None:
        return
    for start, prose in _prose(path, text):
        for match in _WORDS.finditer(_blank(_EXCEPTED, prose)):
            words = " ".join(match.group().split())
            instead = next(instead for rule, instead in _EACH if rule.match(match.group()))
            yield Finding(path, text.count("\n", 0, start + match.start()) + 1, words, instead)


def check(found: Iterable[Finding], allowed: dict[str, int]) -> list[str]:
    """What is wrong: the words beyond what is allowed, and each allowance that is far from exact."""
    by_part: dict[str, list[Finding]] = {part: [] for part in allowed}
    for finding in found:
        by_part.setdefault(_part(finding.path, allowed), []).append(finding)
    problems: list[str] = []
    for part, there in by_part.items():
        limit = allowed.get(part, 0)
        if len(there) > limit:
            problems += [str(finding) for finding in there]
            problems += [f"{part}: {len(there)} words, {limit} allowed (tests/prose.py)"] * (limit > 0)
        elif len(there) < limit - SLACK * (limit > SLACK):
            problems.append(f"{part}: {len(there)} words left: lower its number in tests/prose.py from {limit}")
    return problems


def files(root: Path = ROOT) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *PARTS],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [name for name in listed if name.endswith((".md", ".py", ".yaml", ".yml")) and name not in _SELF]


def _part(path: str, allowed: dict[str, int]) -> str:
    parents = [path, *(str(parent) for parent in Path(path).parents)]
    return next((part for part in parents if part in allowed), "")


def _prose(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Where each text that people read starts, and the text; of the same length, with code blanked out."""
    if path.endswith(".md"):
        yield 0, _blank(_CODE, text)
    elif path.endswith(".py"):
        for match in _PYTHON.finditer(text):
            prose = _blank(_DOCTEST, match.group())
            if prose.startswith("#") or " " in prose.strip():
                prose = _blank(_FIELDS, prose) if match.group("f") else prose
                yield match.start(), _blank(_CODE, prose)
    else:
        for match in _YAML.finditer(text):
            yield match.start(), _blank(_CODE, match.group())


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: re.sub(r"[^\n]", "\0", match.group()), text)


def main(arguments: list[str] | None = None) -> int:
    """Print each word with its place and what to write instead; 1 if something has to be changed."""
    parser = argparse.ArgumentParser(description="Check plain English.")
    parser.add_argument("--counts", action="store_true", help="print how many words each directory has, and succeed")
    parser.add_argument("paths", nargs="*", help="print every word in these files or directories, allowed or not")
    options = parser.parse_args(arguments)
    read = ((name, ROOT / name) for name in files())
    found = [each for name, path in read if path.is_file() for each in findings(name, path.read_text())]
    if options.counts:
        counted = Counter("/".join(finding.path.split("/")[:2]) for finding in found)
        sys.stdout.writelines(f"{count:5}  {part}\n" for part, count in sorted(counted.items()))
        sys.stdout.write(f"{len(found):5}  words\n")
        return 0
    if options.paths:
        found = [each for each in found if each.path.startswith(tuple(options.paths))]
    problems = check(found, {} if options.paths else ALLOWED)
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
