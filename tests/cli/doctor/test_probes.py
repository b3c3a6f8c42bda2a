"""Sources are asked once, from here."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.doctor import Facts, examine
from cli.doctor.cluster_facts import scheduler_of
from cli.doctor.facts import Endpoints
from cli.doctor.probes import ask_sources
from extender.errors import ConfigError
from extender.runtime.clock import SystemClock
from extender.settings.settings import Settings
from tests.builders import node

NODES = (node("n1"), node("n2"), node("n3"))


async def asked(*sources: dict[str, Any]) -> Facts:
    return await ask_sources(Facts(Settings(network={"sources": sources}), nodes=NODES), SystemClock())


async def test_a_source_that_answers_and_one_that_does_not(tmp_path: Path) -> None:
    mesh = tmp_path / "mesh.json"
    pairs = (("n1", "n2"), ("n2", "n1"))
    mesh.write_text(json.dumps([{"source": a, "target": b, "delay_ms": 1.0} for a, b in pairs]))
    seen = await asked({"kind": "file", "path": str(mesh)}, {"kind": "maddash", "url": "http://127.0.0.1:1/maddash"})
    assert {name: problem is None for name, problem in (seen.sources or {}).items()} == {"file": True, "maddash": False}
    assert seen.endpoints == Endpoints({"delay": {"mapped": 2, "unmapped": 1, "ambiguous": 0}}, ("n3",))
    found = examine(replace(seen, nodes=None))
    assert [one.id for one in found] == ["source-unreachable", "nodes-unmapped"]


async def test_files_of_the_pod_are_not_missed_here(tmp_path: Path) -> None:
    """They are in the pod, and the doctor is not."""
    absent, nothing = await asked({"kind": "file", "path": "/etc/netgang/mesh.yaml"}), await asked()
    assert (absent.sources, absent.endpoints) == (None, None)
    assert (nothing.sources, nothing.endpoints) == ({}, None)
    empty = tmp_path / "mesh.json"
    empty.write_text("[]")
    seen = await asked({"kind": "file", "path": str(empty)})
    assert (seen.sources, seen.endpoints) == ({"file": None}, Endpoints({}))


@pytest.mark.parametrize("text", ["a: [b", "just words", "[" * 999], ids=["no YAML", "words", "deep"])
def test_a_configuration_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"file x: "):
        scheduler_of(text, where="file x")
