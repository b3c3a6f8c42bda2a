"""One note: signed, read again, and ignored where anything about it is wrong (docs/safety.md S22)."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.notes.signatures import MOST_CHARS, Bearer, Flaw, Key, KeyRing, NoteKind, Notes

POD = Bearer("v1", "Pod", "team-a", "w-0", "3f2a")
KEYS = (Key("20260101000000", b"a" * 32), Key("20260201000000", b"b" * 32))


class Desk:
    def __init__(self, *some: Key) -> None:
        self.ignored: list[tuple[NoteKind, Bearer, Flaw]] = []
        self.notes = Notes(KeyRing(some or KEYS, now_s=2e9))
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
    "another key of the same name": (Flaw.FORGED, lambda _: Desk(Key(KEYS[1].name, b"c" * 32)).flaw(WRITTEN)),
    "a key that is gone": (Flaw.UNKNOWN_KEY, lambda _: Desk(KEYS[0]).flaw(WRITTEN)),
    "none": (Flaw.UNSIGNED, lambda desk: desk.flaw("node28")),
    "of version 0.1": (Flaw.UNSIGNED, lambda desk: desk.flaw("3f2a/node28")),
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


def test_an_empty_note_is_none() -> None:
    """That is how one that cannot be deleted by a merge of annotations is taken back; nobody has to be told."""
    desk = Desk()
    assert desk.notes.read(NoteKind.PREEMPTS, POD, "") is None
    assert desk.ignored == []


def test_all_keys_check_and_the_newest_that_has_settled_signs() -> None:
    new_s = KEYS[1].made_s
    before, after = KeyRing(KEYS, now_s=new_s + 179.0), KeyRing(KEYS, now_s=new_s + 181.0)
    assert (before.signer, after.signer) == KEYS
    old = Notes(before).write(NoteKind.ADMITTED, POD, "n1")
    assert Notes(after).read(NoteKind.ADMITTED, POD, old) == "n1"


def test_a_note_that_could_not_be_read_is_not_written() -> None:
    """Rather no note than one that a successor has to ignore."""
    with pytest.raises(ValueError, match="longer than 4096"):
        Desk().notes.write(NoteKind.PREEMPTS, POD, "x" * MOST_CHARS)


def test_keys_are_in_no_text() -> None:
    assert "aaaa" not in f"{KEYS[0]!r} {json.dumps(str(KEYS))} {KeyRing(KEYS, now_s=0.0)!r}"
