"""The page of a running service: its files and sections, what a browser refuses, how often it is worked out."""

import asyncio
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from extender.web import page
from extender.web.page import MOST_GANGS, Shown
from scoring.records import Explained, PlaceInQueue, WaitingCause, WorstLink
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
        assert not re.search(r"""(=|fetch\(|get\()["'`]/""", text), (
            f"{path}: the page is also read below another address"
        )
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
        shown = (await client.get("/v1/page?view=cluster")).json()
        await world.settle(5.0)
        again = await client.get("/v1/page?view=cluster")
        assert again.json() == shown
        unchanged = await client.get("/v1/page?view=cluster", headers={"if-none-match": again.headers["etag"]})
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert set((await client.get("/v1/page?view=network")).json()) == {"status", "network", "nodes"}
        assert set((await client.get("/v1/page")).json()) == {"status", "queue"}
        world.delete("half-0", "half-1")
    assert shown.keys() == {"status", "queue", "network", "nodes", "history"}
    assert [shown["status"][name] for name in ("ready", "nodes", "usable_nodes")] == [True, 4, 4]
    rows = {row["gang"]: row for row in shown["queue"]["rows"]}
    runs, half, waits = (rows[f"default/{name}"] for name in ("runs", "half", "waits"))
    assert (half["stage"], half["at_bind"], half["min_available"]) == ("held", 1, 2)
    assert (runs["state"], runs["running"], runs["zone"], runs["nodes"]) == ("RUNNING", 2, "a", ["n0", "n2"])
    assert (runs["holds"], "wants" in runs, waits["wants"], "zone" in waits) == (8000, False, 12_000, False)
    assert shown["queue"]["reasons"][waits["code"]].startswith("netgang: ")
    assert shown["nodes"]["resources"] == ["cpu", "memory"]
    n0, n1, *_ = shown["nodes"]["rows"]
    assert (n0[:3], n0[3][0], n0[4][0], n0[5]) == (["n0", "a", ""], 4000, 4000, {"default/runs": 1})
    assert (n1[:3], n1[3][0], n1[5]) == (["n1", "b", ""], 0, {})
    assert {"admit", "bind"} <= {row["what"] for row in shown["history"]["decisions"]}


async def test_the_time_axis_has_the_last_values_of_each_minute_and_what_happened() -> None:
    async with running(*NODES) as world:
        names = await world.planned_gang("runs", 2, cpu="4")
        await world.settle(60.0 - world.clock.now_s() % 60.0)
        await world.bind_and_settle(*names)
        world.gang("waits", 3, cpu="4")
        await world.settle(1.0)
        world.set_network(mesh(["n0", "n1", "n2", "n3"], bad={"n2": {"loss_ratio": 0.5}}))
        await world.settle(60.0)
        world.change(names[0], phase="Succeeded")
        await world.settle(5.0)
        history = (await world.get("/v1/page?view=cluster")).json()["history"]
    start_s = history["minutes"][0][0]
    minutes = [(at_s - start_s, *values) for at_s, *values in history["minutes"]]
    assert minutes == [(0.0, 0, 16_000, 0), (60.0, 8000, 16_000, 1), (120.0, 4000, 16_000, 1)]
    assert [(what, about) for _, what, about in history["marks"]] == [("bad links", "zone a")]


@pytest.mark.slow
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
        zone = (await client.get("/v1/page/mesh", params={"zone": "b", "metric": "delay", "node": "n3"})).json()
        assert (zone["ends"], zone["grades"]) == (["n3", "n1"], [" +", "+ "])
        assert (await client.get("/v1/page/mesh", params={"zone": "mars"})).status_code == 404


async def test_held_room_is_said_of_its_zone() -> None:
    async with running(*NODES, queue={"starve_limit_s": 1.0, "reserve_after_s": 0.0}) as world:
        world.occupy("n0")
        world.gang("saves", 2, cpu="4", annotations={"netgang.io/zones": "a"})
        await world.settle(5.0)
        [row] = (await world.get("/v1/page")).json()["queue"]["rows"]
    assert (row["gang"], row["zone"], row["reserved"]) == ("default/saves", "a", 2)


async def test_a_change_is_seen_within_a_second_and_many_pages_cost_one_look() -> None:
    bodies, looks = [b"1"], list[bytes]()

    async def look() -> bytes:
        looks.append(bodies[-1])
        return bodies[-1]

    shown = Shown(look, lambda: len(bodies))
    await asyncio.sleep(60.0)
    assert not looks, "there is no page"
    (first, tag), *answers = await asyncio.gather(*(shown.render() for _ in range(50)))
    assert (looks, first, set(answers)) == ([b"1"], b"1", {(first, tag)})
    for _ in range(10):
        bodies.append(b"2")
        await shown.render()
    assert len(looks) == 1, "not more often than once a second"
    await asyncio.sleep(1.0)
    changed, new_tag = await shown.render()
    assert (changed, new_tag == tag) == (b"2", False)
    bodies.append(b"2")
    for _ in range(10):
        await asyncio.sleep(2.0)
        assert await shown.render() == (changed, new_tag), "what is the same has the same tag"
    assert len(looks) == 3, "there is no news"


def test_the_page_reads_fields_that_there_are() -> None:
    """A field that the document has no more would be shown as nothing at all; of the cause it reads all."""
    text = (STATIC / "gang.js").read_text()
    documents = {"found": Explained, "cause": WaitingCause, "turn": PlaceInQueue, "worst": WorstLink}
    read = {name: set(re.findall(rf"\b{name}\??\.(\w+)", text)) for name in documents}
    for name, document in documents.items():
        assert set() < read[name] <= get_type_hints(document).keys(), name
    assert read["cause"] == get_type_hints(WaitingCause).keys()
