"""What tenants write as JSON is measured before it is read (docs/safety.md S21)."""

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import node_from_json, pod_from_json, pod_group_from_json
from extender.convert.decode import NOTE_CHARS, NOTE_LEVELS, note_from_json, shallow

_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def _cut(value: object, levels: int) -> object:
    if isinstance(value, list):
        return [_cut(one, levels - 1) for one in value] if levels else None
    if isinstance(value, dict):
        return {key: _cut(one, levels - 1) for key, one in value.items()} if levels else None
    return value


@given(_JSON, st.integers(1, 4))
def test_what_lies_deeper_is_null_and_the_rest_as_it_was(value: object, levels: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert _cut(value, levels) == json.loads(shallow(text.encode(), levels=levels))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"x":' * 200_000,
        '{"victims": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "[" * (NOTE_LEVELS + 1) + "]" * (NOTE_LEVELS + 1),
        '"' + "a" * NOTE_CHARS + '"',
        '"\ud800"',
        '"unended',
        '\\"[[[[',
        "]" * 50 + "[" * 2000,
        "",
        None,
        {"a": 1},
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_cannot_be_read_is_a_value_error(text: object) -> None:
    with pytest.raises(ValueError, match=r"^note: "):
        note_from_json(_ANY, text, what="note")


@pytest.mark.parametrize("read", [pod_from_json, node_from_json, pod_group_from_json])
def test_an_object_nested_too_deeply_is_a_value_error(read: Callable[[bytes], object]) -> None:
    deep = b'{"metadata": {"name": "x"}, "spec": {"y": %s}}' % (b"[" * 9_000 + b"]" * 9_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read(deep)


def test_the_bounds_themselves_are_read() -> None:
    deep = "[" * NOTE_LEVELS + "]" * NOTE_LEVELS
    assert json.loads(deep) == note_from_json(_ANY, deep, what="note")
    long = '"' + "a" * (NOTE_CHARS - 2) + '"'
    assert long[1:-1] == note_from_json(_ANY, long, what="note")
