"""One note: signed, read again, and ignored where anything about it is wrong (docs/safety.md S22)."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.errors import ConfigError
from extender.signed_notes import MOST_CHARS, Bearer, Flaw, NoteKind, Notes, notes_of

POD = Bearer("v1", "Pod", "team-a", "w-0", "3f2a")
KEY, OTHER = b"a" * 32, b"b" * 32


class Desk:
    def __init__(self, key: bytes = KEY) -> None:
        self.ignored: list[tuple[NoteKind, Bearer, Flaw]] = []
        self.notes = Notes(key)
        self.notes.on_ignored = lambda *what: self.ignored.append(what)

    def flaw(self, text: str, *, kind: NoteKind = NoteKind.ADMITTED, bearer: Bearer = POD) -> Flaw | None:
        self.ignored.clear()
        assert (self.notes.read(kind, bearer, text) is None) == bool(self.ignored)
        return self.ignored[0][2] if self.ignored else None


@given(st.text(max_size=300), st.sampled_from(NoteKind))
def test_what_is_written_is_read(content: str, kind: NoteKind) -> None:
    assert Desk().notes.read(kind, POD, Desk().notes.write(kind, POD, content)) == content


WRITTEN = Desk().notes.write(NoteKind.ADMITTED, POD, "node28")
WRONG: dict[str, tuple[Flaw, Callable[[Desk], Flaw | None]]] = {
    "another content": (Flaw.FORGED, lambda desk: desk.flaw(WRITTEN.replace("node28", "node29"))),
    "another pod": (Flaw.FORGED, lambda desk: desk.flaw(WRITTEN, bearer=replace(POD, uid="3f2b"))),
    "another namespace": (Flaw.FORGED, lambda desk: desk.flaw(WRITTEN, bearer=replace(POD, namespace="team-b"))),
    "another annotation": (Flaw.FORGED, lambda desk: desk.flaw(WRITTEN, kind=NoteKind.RESUME)),
    "half a signature": (Flaw.FORGED, lambda desk: desk.flaw(WRITTEN[:-5])),
    "letters beyond ASCII": (Flaw.FORGED, lambda desk: desk.flaw(WRITTEN[:-1] + "é")),
    "a key that is gone": (Flaw.FORGED, lambda _: Desk(OTHER).flaw(WRITTEN)),
    "none": (Flaw.UNSIGNED, lambda desk: desk.flaw("node28")),
    "as tenants may write": (Flaw.UNSIGNED, lambda desk: desk.flaw("3f2a/node28")),
    "of a later scheme": (Flaw.UNSIGNED, lambda desk: desk.flaw(WRITTEN.replace("hmac1", "hmac2"))),
    "nested": (Flaw.UNSIGNED, lambda desk: desk.flaw("[" * 4000)),
    "as long as an annotation may be": (Flaw.TOO_LONG, lambda desk: desk.flaw("[" * 262_144)),
}


@pytest.mark.parametrize(("want", "read"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_ignored_and_told(want: Flaw, read: Callable[[Desk], Flaw | None]) -> None:
    assert want is read(Desk())


@given(st.text(max_size=200))
def test_no_text_is_an_error(text: str) -> None:
    assert Desk().flaw(f"x{text}") is not None


def test_an_empty_note_is_none_and_one_that_could_not_be_read_is_not_written() -> None:
    """Empty is one that cannot be deleted by a merge of annotations, and was taken back: nobody has to be told."""
    desk = Desk()
    assert (desk.notes.read(NoteKind.PREEMPTS, POD, ""), desk.ignored) == (None, [])
    with pytest.raises(ValueError, match="longer than 4096"):
        desk.notes.write(NoteKind.PREEMPTS, POD, "x" * MOST_CHARS)


def keys_in(directory: Path, **files: bytes) -> Path:
    for name, content in files.items():
        (directory / name.replace("_", "-")).write_bytes(content)
    return directory


def test_the_key_signs_and_the_former_one_is_still_read(tmp_path: Path) -> None:
    before = notes_of(keys_in(tmp_path, key=KEY))
    old = before.write(NoteKind.ADMITTED, POD, "n1")
    after = notes_of(keys_in(tmp_path, key=OTHER + b"\n", former_key=KEY + b"\n"))
    assert after.read(NoteKind.ADMITTED, POD, old) == "n1"
    new = after.write(NoteKind.ADMITTED, POD, "n2")
    assert (before.read(NoteKind.ADMITTED, POD, new), Notes(OTHER).read(NoteKind.ADMITTED, POD, new)) == (None, "n2")
    assert (before.problem, after.problem) == ("", "")


def test_without_a_key_notes_end_with_the_process(tmp_path: Path) -> None:
    one, other = notes_of(tmp_path), notes_of(tmp_path / "nothing")
    text = one.write(NoteKind.ADMITTED, POD, "n1")
    assert (one.read(NoteKind.ADMITTED, POD, text), other.read(NoteKind.ADMITTED, POD, text)) == ("n1", None)
    assert one.problem.startswith(f"there is no key in {tmp_path}/key")


@pytest.mark.parametrize("name", ["key", "former_key"])
def test_a_file_that_holds_no_key_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must hold at least 16 bytes"):
        notes_of(keys_in(tmp_path, **{"key": KEY, name: b" short \n"}))
    with pytest.raises(ConfigError, match="cannot be read"):
        notes_of(keys_in(tmp_path) / "key")
