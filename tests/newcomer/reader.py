"""Type what a page to look things up prints, with the reader's own names, and look at what comes of it.

Each command must succeed and have the effect that the page's table names. One that stays (`STAYS`), or ends with `&`,
goes on beside the others until the page's end; nothing that was started is left then.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.newcomer.document import Typed, Walk, bare, parts, typed_lines
from tests.newcomer.page import Effect, Page, entry
from tests.newcomer.shown import is_shown
from tests.newcomer.terminal import Shell, Unanswered, wait_s
from tests.newcomer.walk import NotAsPrinted, terminal_environment

STAYS = re.compile(r" --watch\b| port-forward [^&]*$")  # commands that run until Ctrl-C

_TYPED_LIMIT_S = 60.0
_EFFECT_LIMIT_S = 30.0
_PAUSE_S = 0.3


@dataclass(slots=True)
class Reader:
    """Somebody who knows this project's pages, in the folder `root`, a copy of the checkout.

    `environment` comes on top of a terminal's own. `words` are those of all pages: what is printed → what is typed.
    `say` is told each command as printed before it is typed.
    """

    root: Path
    environment: Mapping[str, str]
    words: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda _: None

    def read(self, walk: Walk) -> tuple[str, ...]:
        """Type the page's commands; returns those that were typed, as printed. Errors: NotAsPrinted, WrongDocument."""
        assert walk.page is not None
        typed = []
        with ExitStack() as stack:
            desk = _Desk(self, walk.page, stack)
            desk.write_files(walk)
            for step in walk.steps():
                assert isinstance(step, Typed)
                for command in map(bare, step.commands):
                    if walk.page.types(command):
                        self.say(command)
                        desk.do(command, f"{walk.path.name}:{step.line}")
                        typed.append(command)
            desk.end_begun(walk.path.name)
        return tuple(typed)


def typed_of(walk: Walk) -> tuple[str, ...]:
    page = walk.page
    assert page is not None
    return tuple(
        one for step in walk.steps() if isinstance(step, Typed) for one in map(bare, step.commands) if page.types(one)
    )


class _Desk:
    def __init__(self, reader: Reader, page: Page, stack: ExitStack) -> None:
        self._root = reader.root
        self._page = page
        self._words = {**reader.words, **page.words}
        self._stack = stack
        self._environment = {**terminal_environment(str(reader.root)), **reader.environment}
        self._shell = Shell(reader.root, self._environment)
        self._shell.type("set -o pipefail", limit_s=_TYPED_LIMIT_S)  # a pipe fails with each of its parts
        stack.callback(self._shell.close)
        self._begun: dict[int, str] = {}  # process → command that goes on
        self._times: Counter[str] = Counter()  # command → how often it was typed

    def write_files(self, walk: Walk) -> None:
        """Write the page's own YAML blocks where it says that they go."""
        blocks = ["\n".join(one.lines) for one in parts(walk.path.read_text()) if one.language == "yaml"]
        for name, words in self._page.files.items():
            text = next(block for block in blocks if words in block)
            (self._root / name).write_text(self._own(text) + "\n")

    def do(self, command: str, where: str) -> None:
        """Type one command, after what comes before it, and look at its effect."""
        if earlier := entry(self._page.before, command):
            for line in typed_lines(earlier.splitlines()):
                self._run(self._own(line), where)
        own = self._own(command)
        ends = entry(self._page.ends, command) or ()
        said = self._run(own, where, code=next(iter(ends[self._times[command] :]), 0))
        self._times[command] += 1
        if effect := entry(self._page.effects, command):
            self._look(effect, said, f"{where}: `{own}`")

    def end_begun(self, page: str) -> None:
        """End what goes on, which hears no Ctrl-C in the background. Errors: NotAsPrinted, if one ended by itself."""
        for process, command in self._begun.items():
            if self._shell.type(f"kill {process} && {{ wait {process}; true; }}", limit_s=_TYPED_LIMIT_S).code:
                raise NotAsPrinted(f"{page}: `{command}` has ended by itself")

    def _run(self, command: str, where: str, *, code: int = 0) -> str:
        """Type it, and return what it has printed. Errors: NotAsPrinted, also if it ends with another code."""
        try:
            if STAYS.search(command) or command.endswith("&"):
                return self._begin(command)
            answer = self._shell.type(command, limit_s=_TYPED_LIMIT_S)
        except Unanswered as late:
            raise NotAsPrinted(f"{where}: {late}") from late
        if answer.code != code:
            raise NotAsPrinted(f"{where}: `{command}` ended with exit code {answer.code}:\n{answer.text}")
        return answer.text

    def _begin(self, command: str) -> str:
        log = self._root / f"begun-{len(self._begun)}.log"
        said = self._shell.begin(command.removesuffix("&") + " &", log=log, limit_s=_TYPED_LIMIT_S)
        self._begun[int(self._shell.type("echo $!", limit_s=_TYPED_LIMIT_S).text)] = command
        return said

    def _own(self, text: str) -> str:
        """With this reader's words in place of the printed ones, the longest first."""
        for printed in sorted(self._words, key=len, reverse=True):
            text = text.replace(printed, self._words[printed])
        return text

    def _look(self, effect: Effect, said: str, where: str) -> None:
        wanted = self._own(effect.answer).splitlines()
        deadline_s = time.monotonic() + _EFFECT_LIMIT_S
        seen = said
        while True:
            if effect.question:
                answer = self._shell.type(self._own(effect.question), limit_s=_TYPED_LIMIT_S)
                seen = answer.text
            if is_shown(seen, wanted):
                return
            if not effect.question or time.monotonic() > deadline_s:
                shown = "\n".join(wanted)
                raise NotAsPrinted(f"{where} has not the effect\n{shown}\n--- but\n{seen}")
            wait_s(_PAUSE_S)
