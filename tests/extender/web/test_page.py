"""The page of a running service: its files and sections, what a browser refuses, how often it is worked out."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_type_hints

import pytest

from extender.web import page
from extender.web.page import MOST_GANGS, Shown
from scoring.records import Explained, WaitingCause
from tests.builders import mesh
from tests.extender.scheduling.world import node_json, running

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}", zone="ab"[i % 2]) for i in range(4)]
STATIC = Path(page.__file__).parent / "static"


async def test_every_file_of_the_page_is_served_and_no_other() -> None:
    async with running(*NODES) as world, world.client() as client:
        page = await client.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        for path in (file.name for file in STATIC.iterdir() if file.name != "index.html"):
            answer = await client.get(f"/page/{path}")
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        assert (await client.get("/page/secrets.env")).status_code == 404
        assert (await client.get("/page/../page.py")).status_code == 404


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text()
        assert "https://" not in text, path
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path
        assert "style=" not in text, path
        assert "innerHTML" not in text, path
    page = (STATIC / "index.html").read_text()
    assert "<script>" not in page
    assert page.count("<script") == 1


async def test_the_sections_of_a_moment() -> None:
    """Nothing in it moves with the clock alone, so that nothing is sent again."""
    async with running(*NODES, queue={"starve_limit_s": 1e12}) as world, world.client() as client:
        names = await world.planned_gang("runs", 2, cpu="4")
        await world.bind_and_settle(*names)
        first, _ = await world.planned_gang("half", 2, cpu="3")
        world.bind_offered(first)
        await world.planned_gang("waits", 3, cpu="4")
        shown = (await client.get("/v1/page")).json()
        await world.settle(5.0)
        again = await client.get("/v1/page")
        assert again.json() == shown
        unchanged = await client.get("/v1/page", headers={"if-none-match": again.headers["etag"]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        world.delete("half-0", "half-1")
    assert set(shown) == {"status", "zones", "gates", "network", "decisions", "queue"}
    assert shown["status"]["ready"]
    assert (shown["status"]["nodes"], shown["status"]["held_binds"]) == (4, 1)
    [gate] = shown["gates"]["rows"]
    assert (gate["gang"], gate["stage"], gate["held"], gate["least"]) == ("default/half", "held", 1, 2)
    assert sorted(gate["members"]) == ["h", "w"]
    rows = {row["gang"]: row for row in shown["queue"]["rows"]}
    assert (rows["default/runs"]["state"], rows["default/runs"]["members"]) == ("RUNNING", [2, 0, 2, 0])
    assert (rows["default/runs"]["zone"], rows["default/waits"]["zone"]) == ("a", None)
    assert rows["default/waits"]["reason"]
    zones = {zone["zone"]: zone for zone in shown["zones"]["rows"]}
    assert (zones["a"]["nodes"], zones["b"]["nodes"]) == (2, 2)
    assert sum(zone["resources"]["cpu"][0] for zone in zones.values()) == 16000 - 2 * 4000
    assert {"admit", "bind"} <= {row["what"] for row in shown["decisions"]["rows"]}


async def test_a_long_queue_is_cut_and_counted() -> None:
    async with running(*NODES, queue={"starve_limit_s": 1e12}) as world, world.client() as client:
        for number in range(MOST_GANGS + 20):
            world.gang(f"g{number}", 1, cpu="5")
        await world.settle(3.0)
        answer = await client.get("/v1/page")
    queue = answer.json()["queue"]
    assert (len(queue["rows"]), queue["of"]) == (MOST_GANGS, MOST_GANGS + 20)
    assert len(answer.content) < 500 * 1024


async def test_the_heat_map_is_served() -> None:
    async with running(*NODES) as world, world.client() as client:
        world.set_network(mesh(["n0", "n1", "n2", "n3"], bad={"n2": {"loss_ratio": 0.5}}))
        await world.settle()
        whole = (await client.get("/v1/page/mesh")).json()
        assert (whole["metric"], whole["ends"], whole["grades"]) == ("loss", ["a", "b"], ["#+", "++"])
        assert whole["bad"] == [[2, 2], [2, 0]]
        zone = (await client.get("/v1/page/mesh", params={"zone": "b", "metric": "delay"})).json()
        assert (zone["ends"], zone["grades"]) == (["n1", "n3"], [" +", "+ "])
        assert (await client.get("/v1/page/mesh", params={"zone": "mars"})).status_code == 404
        assert (await client.get("/v1/page/mesh", params={"metric": "colour"})).status_code == 400


async def test_held_room_is_said_of_its_zone() -> None:
    async with running(*NODES, queue={"starve_limit_s": 1.0, "reserve_after_s": 0.0}) as world:
        world.occupy("n0")
        world.gang("saves", 2, cpu="4", annotations={"netgang.io/zones": "a"})
        await world.settle(5.0)
        shown = (await world.get("/v1/page")).json()
    held = {zone["zone"]: zone["held_for"] for zone in shown["zones"]["rows"]}
    assert held == {"a": ["default/saves"], "b": []}


class Cluster:
    def __init__(self) -> None:
        self.sections, self.version, self.looks = {"queue": b"1", "zones": b"1"}, 1, 0
        self.shown = Shown(self._look, lambda: self.version)

    def change(self, **sections: bytes) -> None:
        self.sections |= sections
        self.version += 1

    async def _look(self) -> Mapping[str, bytes]:
        self.looks += 1
        return dict(self.sections)


async def test_a_change_is_seen_within_a_second_and_many_pages_cost_one_look() -> None:
    cluster = Cluster()
    await asyncio.sleep(60.0)
    assert cluster.looks == 0, "there is no page"
    answers = await asyncio.gather(*(cluster.shown.render() for _ in range(50)))
    assert (cluster.looks, set(answers)) == (1, {(b'{"queue":1,"zones":1}', '"1"')})
    for _ in range(10):
        cluster.change(zones=b"2")
        await cluster.shown.render()
    assert cluster.looks == 1, "not more often than once a second"
    await asyncio.sleep(1.0)
    assert await cluster.shown.render() == (b'{"queue":1,"zones":2}', '"2"')
    cluster.change(zones=b"2")
    await asyncio.sleep(1.0)
    assert ((await cluster.shown.render())[1], cluster.looks) == ('"2"', 3), "what is the same has the same tag"
    for _ in range(10):
        await cluster.shown.render()
        await asyncio.sleep(2.0)
    assert cluster.looks == 3, "there is no news"


def test_the_page_reads_fields_that_there_are() -> None:
    """A field that the document has no more would be shown as nothing at all; of the cause it reads all."""
    text = (STATIC / "explain.js").read_text()
    read = {name: set(re.findall(rf"\b{name}\??\.(\w+)", text)) for name in ("found", "cause")}
    assert read["found"]
    assert read["found"] <= get_type_hints(Explained).keys()
    assert read["cause"] == get_type_hints(WaitingCause).keys()
