"""Names, types and help texts of all metrics, as a busy service shows them, are those that promtool accepts."""

from pathlib import Path

import pytest

from tests.contract.manifests.promtool import promtool
from tests.contract.manifests.test_monitoring import exposed
from tests.extender.scheduling.world import node_json, running


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
async def test_promtool_accepts_all_names(tmp_path: Path) -> None:
    for text in (await _metrics_of_a_busy_service(), exposed()):
        done = promtool("check", "metrics", directory=tmp_path, stdin=text)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
