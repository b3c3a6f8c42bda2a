"""Lists as kubectl prints them: columns that fit a terminal, whole lines in pipes, other forms, and --watch."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest
import yaml
from rich.console import Console
from rich.text import Text

from cli.listing import AGAIN_S, Found, Listing, Output, Scope, follow, show_found
from cli.rendering.columns import columns
from tests.cli.world import run
from tests.fakes.raw_http import RawServer

DOCUMENT = {"gangs": [{"name": "a/x", "said": "Zürich"}]}
FOUND = Found(json.dumps(DOCUMENT).encode(), ["a/x", "a/\x1b[2Jy"], lambda console: Text("drawn"))


def drawn(*rows: tuple[str, ...], width: int, heads: bool = True) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as text:
        console.print(columns(console, ("NAME", "NODES", "WHY"), rows, heads=heads), crop=False)
    return [line.rstrip() for line in text.get().splitlines()]


def test_columns_are_aligned_and_the_last_is_cut() -> None:
    rows = (("team/a-name-that-is-long", "2", "no room in zone D"), ("b", "", "x\ny\x1b"))
    assert drawn(*rows, width=45) == [
        "NAME                      NODES  WHY",
        "team/a-name-that-is-long  2      no room in …",
        "b                         –      x; y�",
    ]
    assert drawn(*rows, width=200)[1].endswith("no room in zone D")
    assert drawn(*rows, width=10, heads=False)[0] == "team/a-name-that-is-long  2  no room in …"


FORMS: dict[str, tuple[Listing, str]] = {
    "a person's": (Listing(), "drawn\n"),
    "wide": (Listing(Output.WIDE), "drawn\n"),
    "name": (Listing(Output.NAME), "a/x\na/�[2Jy\n"),
    "json": (Listing(Output.JSON), json.dumps(DOCUMENT, indent=2) + "\n"),
    "--json before -o": (Listing(Output.NAME, as_json=True), json.dumps(DOCUMENT, indent=2) + "\n"),
}


@pytest.mark.parametrize(("listing", "text"), FORMS.values(), ids=FORMS)
def test_forms(listing: Listing, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_found(listing, FOUND)
    assert capsys.readouterr().out == text


def test_yaml_is_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    show_found(Listing(Output.YAML), FOUND)
    assert yaml.safe_load(capsys.readouterr().out) == DOCUMENT


def test_namespaces_as_kubectl_means_them() -> None:
    """-A wins over -n."""
    assert Scope().only is None
    assert (Scope("a").only, Scope("a").has("a/x"), Scope("a").has("b/x")) == ("a", True, False)
    assert Scope("a", all_namespaces=True).has("b/x")


@pytest.mark.looptime
@pytest.mark.parametrize(("form", "line"), [(None, "drawn"), (Output.JSON, json.dumps(DOCUMENT)), (Output.NAME, "a/x")])
async def test_watch_looks_every_two_seconds(
    form: Output | None, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until it is stopped, as Ctrl-C does; a document is one line."""
    loop = asyncio.get_running_loop()
    begun, at_s = loop.time(), []

    async def look() -> Found:
        at_s.append(loop.time() - begun)
        return Found(FOUND.body, ["a/x"], FOUND.draw)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(follow(look, Listing(form)), 2.5 * AGAIN_S)
    assert at_s == pytest.approx([0.0, AGAIN_S, 2 * AGAIN_S])
    assert capsys.readouterr().out.splitlines() == [line] * 3


def test_watch_ends_when_netgang_does_not_answer() -> None:
    with RawServer({}) as server:
        result = run("queue", "--url", server.url, "--watch")
    assert (result.exit_code, result.stdout) == (1, "")


def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(asking: Coroutine[Any, Any, None]) -> None:
        asking.close()
        raise KeyboardInterrupt

    monkeypatch.setattr("cli.listing.run", interrupted)
    assert run("queue", "--watch").exit_code == 130
