"""Read loss, delay and throughput from a MaDDash server: one GET per grid.

Why: a grid holds all pairs at once, while a GET per pair would make the server build the whole grid each time. Rules:
- A grid, and a pair in it, that gives nothing good keeps what it gave before (`extender.network.answers`): the server
  reloads its configuration hourly, and then answers with errors, empty lists or half a grid for seconds.
- Every site names its grids itself. A text that is exactly a grid's name means that grid alone; any other is a pattern
  in which `*`, `?` and `[…]` stand for characters. A metric that names grids uses these alone; one that names none uses
  every grid whose messages show it. Of the server's list only names count, since a grid's address is rebuilt from its
  name (the server's own `uri` is wrong for names with `%` or `+`).
- A server whose `Date` is ahead of our clock has its times moved back by the difference. MaDDash's times are those of
  the check; the value may be older by the plugin's window.
"""

import re
from collections.abc import Collection, Iterator
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec
from msgspec.structs import replace

from extender.errors import NetworkSourceError
from extender.network.answers import TOLERANCE_S, LastAnswers, SourceAnswer, decoded, off_loop
from extender.network.http import HttpClient, HttpReply
from extender.network.maddash_grid import read_grid
from extender.ports import Batch
from extender.settings.network import MaddashSettings
from scoring.network.matrix import METRICS, Metric

MAX_GRIDS: Final = 500
ROUND_S: Final = 120.0  # For the grids of one fetch; those not reached by then keep their last good data
_VALUE_BYTES: Final = 36  # A check has 180 in its grid, and costs as much time as five values of other sources
_PATTERN: Final = re.compile(r"[*?\[]")
_JSON: Final = msgspec.json.Decoder()


class MaddashSource:
    """A NetworkSource over one MaDDash server. `fetch` is called by one task at a time."""

    def __init__(self, settings: MaddashSettings, *, name: str = "maddash") -> None:
        """Prepare; nothing is sent. Errors: ConfigError for a bad address or CA file."""
        self.name = name
        self._settings = settings
        self._client = HttpClient(settings)
        self.aclose = self._client.aclose
        self._listed: tuple[str, ...] = ()
        self._answers = LastAnswers(name)

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read all grids of use; `None`: nothing is new. NetworkSourceError when nothing answered well."""
        problems = await self._list()
        grids = [name for name in self._named() if any(self._counts(metric, name) for metric in METRICS)]
        if not grids:
            raise NetworkSourceError(f"{self.name}: {'; '.join(problems) or f'{self._client.url} has no grids'}")
        questions = {f"grid {name!r}": partial(self._ask, name, now_s) for name in grids}
        at_once = self._settings.in_flight
        batch = await self._answers.ask(questions, now_s=now_s, at_once=at_once, within_s=ROUND_S, problems=problems)
        if batch is None:
            return None
        table = batch.measurements
        absent = [metric for metric in METRICS if not any(one.metric is metric for one in table)]
        said = (*batch.problems, *(f"no grid gives a value of {metric}" for metric in absent))
        return replace(batch, problems=said)

    async def _list(self) -> list[str]:
        """Learn the names of grids, as far as the settings need them; sentences on what failed."""
        named = self._settings.grids
        if all(metric in named and not any(map(_PATTERN.search, named[metric])) for metric in METRICS):
            return []
        problems: list[str] = []
        try:
            reply = await self._client.ask("GET", "/grids")
            listed = read_grids(reply.body, where=self._client.where("/grids"))
            if len(listed) > MAX_GRIDS:
                problems.append(f"{len(listed)} grids are listed: name those that count, only {MAX_GRIDS} are read")
            self._listed = listed[:MAX_GRIDS] or self._listed  # it lists none while it reloads
        except NetworkSourceError as error:
            problems.append(str(error))
        patterns = {name for names in named.values() for name in names if _PATTERN.search(name)}
        unmet = sorted(
            name for name in patterns if not any(_matches(name, grid, self._listed) for grid in self._listed)
        )
        return problems + [f"no grid is called {name!r}" for name in unmet]

    def _named(self) -> Iterator[str]:
        """Grids that the server lists, and those named without any sign of a pattern: it need not list them."""
        plain = (name for names in self._settings.grids.values() for name in names if not _PATTERN.search(name))
        yield from dict.fromkeys((*self._listed, *plain))

    def _counts(self, metric: Metric, grid: str, check: str | None = None) -> bool:
        grids, checks = self._settings.grids.get(metric), self._settings.checks.get(metric)
        if grids is not None and not any(_matches(name, grid, self._listed) for name in grids):
            return False
        return check is None or checks is None or any(_matches(name, check, (check,)) for name in checks)

    async def _ask(self, name: str, now_s: float) -> SourceAnswer:
        # MaDDash decodes a grid's name twice
        reply = await self._client.ask("GET", f"/grids/{quote(quote_plus(name), safe='')}")
        ahead_s = _ahead_s(reply, now_s)
        counts = partial(self._counts, grid=name)
        work = partial(read_grid, reply.body, counts=counts, now_s=now_s, ahead_s=ahead_s)
        answer = await off_loop(len(reply.body) // _VALUE_BYTES, work)
        if not ahead_s:
            return answer
        said = f"the server's clock is about {ahead_s / 60.0:.0f} min ahead of ours: its times are moved back"
        return replace(answer, problems=(*answer.problems, said))


def _matches(name: str, one: str, present: Collection[str]) -> bool:
    return name == one or (name not in present and fnmatchcase(one, name))


def _ahead_s(reply: HttpReply, now_s: float) -> float:
    """By how much the server's clock is ahead of ours, by its `Date` header; 0.0: no more than clocks differ."""
    try:
        ahead_s = parsedate_to_datetime(reply.headers.get("date", "")).timestamp() - now_s
    except (ValueError, OverflowError):
        return 0.0
    return ahead_s if ahead_s > TOLERANCE_S else 0.0


def read_grids(body: bytes | bytearray, *, where: str) -> tuple[str, ...]:
    """Names of the grids, sorted, each once. Errors: NetworkSourceError when the body is no list of grids."""
    document = decoded(_JSON, body.removeprefix(b"\xef\xbb\xbf"), f"{where} is not a list of grids")
    entries = document.get("grids") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise NetworkSourceError(f"{where} is not a list of grids: it has no 'grids'")
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    return tuple(sorted({name for name in names if isinstance(name, str) and name}))
