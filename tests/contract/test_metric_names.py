"""Names, types and help texts of all metrics pass promlint, as a busy service shows them."""

from pathlib import Path

import pytest

from tests.contract.manifests.promtool import promtool
from tests.contract.manifests.test_monitoring import exposed
from tests.contract.promlint import problems
from tests.extender.scheduling.world import node_json, running

BAD = [  # (exposition, words of the problem)
    ("# TYPE a_total counter\na_total 1\n", "help"),
    ("# HELP a x\n# TYPE a counter\na 1\n", "_total"),
    ("# HELP a_total x\n# TYPE a_total gauge\na_total 1\n", "_total"),
    ('# HELP pairs x\n# TYPE pairs gauge\npairs{le="1"} 1\n', "label le"),
    ("# HELP a_milliseconds x\n# TYPE a_milliseconds gauge\na_milliseconds 1\n", "base unit"),
    ("# HELP a_ms x\n# TYPE a_ms gauge\na_ms 1\n", "abbreviated"),
    ("# HELP a_count x\n# TYPE a_count gauge\na_count 1\n", "suffix"),
    ("# HELP a_gauge x\n# TYPE a_gauge gauge\na_gauge 1\n", "type gauge"),
    ("# HELP aB x\n# TYPE aB gauge\naB 1\n", "small letters"),
]


@pytest.mark.parametrize(("text", "words"), BAD, ids=range(len(BAD)))
def test_a_bad_name_is_seen(text: str, words: str) -> None:
    assert words in " ".join(problems(text))


async def _metrics_of_a_busy_service() -> str:
    async with running(*(node_json(name) for name in ("n1", "n2"))) as world:
        await world.settle(2.0)
        await world.bind_and_settle(*await world.planned_gang("g", 2))
        await world.planned_gang("wide", 9, cpu="4")
        await world.settle(8.0)
        text = (await world.get("/metrics")).text
        assert 'netgang_gang_wait_duration_seconds_count{gang_namespace="default"} 1.0' in text
        return text


@pytest.mark.looptime
async def test_all_names_pass_the_rules_of_promlint() -> None:
    for text in (await _metrics_of_a_busy_service(), exposed()):
        assert list(problems(text)) == []


@pytest.mark.looptime
async def test_promtool_accepts_all_names(tmp_path: Path) -> None:
    for text in (await _metrics_of_a_busy_service(), exposed()):
        done = promtool("check", "metrics", directory=tmp_path, stdin=text)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
