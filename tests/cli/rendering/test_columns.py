"""Lists as kubectl prints them: columns that fit a terminal, and whole lines in pipes."""

from rich.console import Console

from cli.output import columns


def drawn(*rows: tuple[str, ...], width: int) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as text:
        console.print(columns(console, ("NAME", "NODES", "WHY"), rows), crop=False)
    return [line.rstrip() for line in text.get().splitlines()]


def test_columns_are_aligned_and_the_last_is_cut() -> None:
    rows = (("team/a-name-that-is-long", "2", "no room in zone D"), ("b", "", "x\ny\x1b"))
    assert drawn(*rows, width=45) == [
        "NAME                      NODES  WHY",
        "team/a-name-that-is-long  2      no room in …",
        "b                         –      x; y�",
    ]
    assert drawn(*rows, width=200)[1].endswith("no room in zone D")
