"""The mesh file format: what is read, and how what is wrong is named."""

from pathlib import Path

import pytest

from extender.errors import ConfigError
from extender.network.meshfile import parse_mesh, read_mesh
from extender.ports import Batch
from scoring.network.matrix import Metric
from tests.fakes.mesh import mesh_file, paper_mesh
from tests.fakes.network_source import measurements

EXAMPLE = Path(__file__).parents[3] / "examples" / "mesh" / "paper-testbed.json"

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z

TWO_ENDS = '"source": "a", "target": "b"'


def parsed(text: str | bytes, *, written_at_s: float = NOW_S) -> Batch:
    body = text.encode() if isinstance(text, str) else text
    return parse_mesh(body, "mesh", written_at_s=written_at_s, now_s=NOW_S)


def test_json_and_yaml_say_the_same() -> None:
    text = '[{"source": "a", "target": "b", "loss_ratio": 0.25, "delay_ms": 3, "throughput_bps": 1e8, "age_s": 60}]'
    document = "- {source: a, target: b, loss_ratio: 0.25, delay_ms: 3, throughput_bps: 100000000, age_s: 60}\n"
    batch = parsed(text)
    assert [(one.metric, one.value, one.measured_at_s) for one in batch.measurements] == [
        (Metric.LOSS, 0.25, NOW_S - 60.0),
        (Metric.DELAY, 3.0, NOW_S - 60.0),
        (Metric.THROUGHPUT, 1e8, NOW_S - 60.0),
    ]
    assert [one.id for one in batch.endpoints] == ["a", "b"]
    assert batch == parsed(document)


TIMES = {  # fields: age in seconds
    "": 0.0,
    ', "age_s": null': 0.0,
    ', "age_s": 5.5': 5.5,
    ', "measured_at": 1767225570': 30.0,
    ', "measured_at": 1767225570.5': 29.5,
    ', "measured_at": "2025-12-31T23:59:00Z"': 60.0,
    ', "measured_at": "2026-01-01T00:59:00+01:00"': 60.0,
}


@pytest.mark.parametrize("fields", TIMES)
def test_times(fields: str) -> None:
    """`age_s` counts back from when the file was written, `measured_at` is absolute, and neither is that moment."""
    [one] = parsed(f'[{{{TWO_ENDS}, "delay_ms": 1{fields}}}]').measurements
    assert NOW_S - TIMES[fields] == one.measured_at_s
    [one] = parsed(f'[{{{TWO_ENDS}, "delay_ms": 1{fields}}}]', written_at_s=NOW_S - 300.0).measurements
    assert one.measured_at_s == NOW_S - TIMES[fields] - (0.0 if "measured_at" in fields else 300.0)


def test_yaml_times() -> None:
    [one] = parsed("- {source: a, target: b, delay_ms: 1, measured_at: 2025-12-31T23:59:00Z}").measurements
    assert one.measured_at_s == NOW_S - 60.0


def test_unknown_values() -> None:
    """Null and absent values are not measured; an entry without any makes its ends known and is counted."""
    batch = parsed(f'[{{{TWO_ENDS}, "loss_ratio": null}}, {{"source": "b", "target": "a", "delay_ms": 0}}]')
    assert [(m.source, m.target, m.metric, m.value) for m in batch.measurements] == [("b", "a", Metric.DELAY, 0.0)]
    assert batch.rejected == {"no_value": 1}
    assert len(batch.endpoints) == 2


def test_the_example_is_the_paper_s_mesh() -> None:
    batch = read_mesh(EXAMPLE, now_s=NOW_S)
    assert (EXAMPLE.read_text(), batch.problems) == (mesh_file(paper_mesh()), ())
    assert list(batch.measurements) == measurements(paper_mesh(), measured_at_s=NOW_S)


def test_an_empty_list_is_an_empty_mesh() -> None:
    assert parsed("[]").measurements == ()


def test_values_of_one_link_may_be_in_several_entries() -> None:
    text = f'[{{{TWO_ENDS}, "loss_ratio": 0, "age_s": 1}}, {{{TWO_ENDS}, "delay_ms": 2, "age_s": 9}}]'
    assert len(parsed(text).measurements) == 2


def test_times_in_the_future_are_now() -> None:
    batch = parsed(f'[{{{TWO_ENDS}, "delay_ms": 1, "measured_at": {NOW_S + 60.0}}}]')
    assert [m.measured_at_s for m in batch.measurements] == [NOW_S]
    assert batch.rejected == {"future_time": 1}
    assert batch.problems == ("some times lie in the future: they are taken as now",)


GOOD = '{"source": "x", "target": "y", "delay_ms": 1}'
WRONG = {  # case: (text, parts of the error)
    "loss in percent": (f'[{GOOD}, {{{TWO_ENDS}, "loss_ratio": 2}}]', ["entry 1", "loss_ratio", "number from 0 to 1"]),
    "negative delay": (f'[{{{TWO_ENDS}, "delay_ms": -1}}]', ["entry 0", "delay_ms", "at least 0"]),
    "endless delay": (f'[{{{TWO_ENDS}, "delay_ms": 1e999}}]', ["entry 0", "delay_ms"]),
    "text as number": (f'[{{{TWO_ENDS}, "throughput_bps": "1Gbps"}}]', ["entry 0", "throughput_bps", "bit/s"]),
    "true as number": (f'[{{{TWO_ENDS}, "delay_ms": true}}]', ["entry 0", "delay_ms"]),
    "negative age": (f'[{{{TWO_ENDS}, "age_s": -1}}]', ["entry 0", "age_s"]),
    "age and time": (f'[{{{TWO_ENDS}, "age_s": 1, "measured_at": 2}}]', ["entry 0", "age_s", "not together with"]),
    "time without zone": (f'[{{{TWO_ENDS}, "measured_at": "2026-01-01T00:00:00"}}]', ["entry 0", "measured_at"]),
    "time in words": (f'[{{{TWO_ENDS}, "measured_at": "yesterday"}}]', ["entry 0", "measured_at", "2026-01-31T12"]),
    "unknown field": (f'[{{{TWO_ENDS}, "delay": 1}}]', ["entry 0", "unknown field `delay`", "delay_ms"]),
    "no target": ('[{"source": "a"}]', ["entry 0", "missing required field `target`"]),
    "no name": ('[{"source": "", "target": "b"}]', ["entry 0", "source", "1 to 253 characters"]),
    "number as name": ('[{"source": 7, "target": "b"}]', ["entry 0", "source"]),
    "link to itself": (f'[{GOOD}, {{"source": "a", "target": "a"}}]', ["entry 1", "target", "other than source"]),
    "given twice": (f"[{GOOD}, {GOOD}]", ["entry 1", "delay of this link is already in entry 0"]),
    "entry that is a number": (f"[{GOOD}, 5]", ["entry 1", "accepted: an object with source, target"]),
    "object at the top": ('{"links": []}', ["accepted is a list of entries, this is a dict"]),
    "cut off": (f"[{GOOD}", ["neither JSON nor YAML"]),
    "nothing": ("  \n", ["empty", "a JSON or YAML list"]),
    "a word": ("hello", ["accepted is a list of entries, this is a str"]),
    "YAML with a tab": ("-\t{a: b\n\t- c", ["neither JSON nor YAML"]),
    "YAML with a loss in percent": ("- {source: a, target: b, loss_ratio: 2}", ["entry 0", "loss_ratio", "0 to 1"]),
    "YAML nan": ("- {source: a, target: b, delay_ms: .nan}", ["entry 0", "delay_ms"]),
    "YAML object": ("- !!python/object/apply:os.system [ls]", ["neither JSON nor YAML"]),
    "deep": ("[" * 100_000, ["neither JSON nor YAML"]),
}


@pytest.mark.parametrize(("text", "parts"), WRONG.values(), ids=WRONG)
def test_wrong_files(text: str, parts: list[str]) -> None:
    """A file that is wrong anywhere is refused as a whole, and the text names entry, field and what is accepted."""
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    assert str(caught.value).startswith("mesh: ")
    assert not [part for part in parts if part not in str(caught.value)], str(caught.value)


def test_bytes_that_are_no_text() -> None:
    for body in (b'[{"source": "\xff", "target": "b"}]', b"- \xff\xfe\x00"):
        with pytest.raises(ConfigError, match="mesh"):
            parsed(body)


def test_paths(tmp_path: Path) -> None:
    path = tmp_path / "mesh.json"
    path.write_text(f"[{GOOD}]")
    assert len(read_mesh(path, now_s=NOW_S).measurements) == 1
    path.write_text("[5]")
    with pytest.raises(ConfigError, match=rf"{path}: entry 0"):
        read_mesh(path, now_s=NOW_S)
    with pytest.raises(ConfigError, match=r"no\.json: No such file"):
        read_mesh(tmp_path / "no.json", now_s=NOW_S)
