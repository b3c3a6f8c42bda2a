"""The page as a person uses it: three views, every link, the keyboard, a telephone, and 1,000 gangs at once."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
from playwright.sync_api import Page, expect

from lab.testbed.processes.network import free_ports
from tests.browser.clusters import write
from tests.browser.conftest import ARTIFACTS, ROOT, served

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]
VIEWS = {"queue": "#waiting-rows .chip, #no-gangs", "network": "#worst li, #unmeasured h3", "cluster": "#zones .tile"}
PLACES = ("queue/team-e/bert-0009", "network/node34", "network/node28/node34")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, str]]:
    """How many gangs → where such a cluster is served; without gangs nothing is measured either."""
    with ExitStack() as stack:
        folders = {gangs: tmp_path_factory.mktemp("cluster") for gangs in (0, 12, 1000)}
        options = {gangs: write(folder, gangs) for gangs, folder in folders.items()}
        yield {gangs: stack.enter_context(served(*words, measured=gangs > 0)) for gangs, words in options.items()}


def look(page: Page, what: str) -> Any:
    return page.evaluate(f"() => ({(Path(__file__).parent / 'looks.js').read_text()}).{what}")


def opened(page: Page, url: str, place: str, there: str = "main table") -> None:
    page.goto(f"{url}/#/{place}")
    expect(page.locator(there).locator("visible=true").first).to_be_visible()


def test_a_row_says_why_and_its_link_says_all(shown: Page, demo: str) -> None:
    row = shown.locator("#waiting-rows li[data-key='demo/tf-smoke-gpu']")
    expect(row).to_contain_text("Even empty, zone A has room for 2 of 4 pods")
    expect(row.locator(".change")).to_have_text("Lower minMember of the PodGroup to 3.")
    expect(shown.locator("#state")).to_have_text("live")
    expect(shown.locator("#demo")).to_be_visible()
    row.get_by_role("link").first.click()
    expect(shown).to_have_url(f"{demo}/#/queue/demo/tf-smoke-gpu")
    expect(shown.locator("#view-gang")).to_contain_text("ZoneTooSmall")
    shown.go_back()
    expect(row).to_be_visible()


def test_a_change_is_seen_without_a_reload(shown: Page, demo: str) -> None:
    row = shown.locator("#waiting-rows li[data-key='demo/case1']")
    expect(row).to_contain_text("starting", timeout=90_000)  # it may back off, since nobody starts it
    call(demo, "filter")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(call, demo, "bind", limit_s=8.0)
        expect(row).to_contain_text("1 at bind", timeout=8_000)
        with pytest.raises(httpx.TimeoutException):  # the caller hangs up, since five of six never come
            held.result(timeout=40)
    expect(row).not_to_contain_text("at bind", timeout=8_000)


def test_what_is_chosen_stands_in_the_address(page: Page, clusters: dict[int, str]) -> None:
    wait, run = (page.locator(f"#{name}-rows li") for name in ("waiting", "running"))
    opened(page, clusters[12], "queue?namespace=team-b&sort=name", "#waiting-rows li")
    assert (wait.count(), run.count()) == (2, 1)
    page.get_by_label("Search").fill("never")
    expect(page.locator("#found")).to_have_text("1 of 12 gangs match")
    assert page.url.endswith("#/queue?namespace=team-b&sort=name&q=never")
    page.reload()
    expect(wait).to_contain_text("team-b/llama-70b-0011")
    page.get_by_role("link", name="running").click()
    expect(run).to_have_count(6)
    expect(wait).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("gangs", [0, 12, 1000])
def test_it_fits(page: Page, clusters: dict[int, str], scheme: str, gangs: int) -> None:
    """No text is cut or hard to read; with pictures for people."""
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    for width in (1440, 390) if scheme == "light" else (2560, 1440):
        page.set_viewport_size({"width": width, "height": 844 if width == 390 else 900})
        for place in (*PLACES, *VIEWS) if gangs == 12 else VIEWS:
            opened(page, clusters[gangs], place, VIEWS.get(place, "main table"))
            assert look(page, "faults()") == [], (place, width)
            page.screenshot(path=ARTIFACTS / f"{place.replace('/', '-')}-{gangs}-{scheme}-{width}.png")


def test_on_a_telephone_the_cause_comes_first(page: Page, clusters: dict[int, str]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, clusters[12], "queue", ".chip.degraded")  # plans know bad links soon after the network does
    tops = look(page, "tops('.why', '.who', '.when')")
    assert tops == sorted(tops)
    assert len(look(page, "chips()")) == 6, "text and colour of six states"


def test_1000_gangs_are_there_in_half_a_second(page: Page, clusters: dict[int, str]) -> None:
    took_ms = list[float]()
    while not took_ms or (min(took_ms) > 500 and len(took_ms) < 5):  # a busy machine is not the page's fault
        page.goto("about:blank")
        page.goto(clusters[1000])
        took_ms.append(look(page, "untilDrawn()"))
    assert min(took_ms) <= 500, took_ms
    last = page.locator("#waiting-rows li").last
    last.scroll_into_view_if_needed()
    expect(last).to_contain_text("at least")
    assert look(page, "untilFound('0994')") <= 500
    expect(page.locator("#waiting-rows li")).to_contain_text("team-e/resnet-0994")


def test_every_link_opens_what_it_names(page: Page, clusters: dict[int, str]) -> None:
    left, seen = [f"#/{view}" for view in VIEWS], set[str]()
    while left:
        address = left.pop().removeprefix("#/")
        opened(page, clusters[12], address, "main .panel li, main table")
        path, _, query = unquote(address).partition("?")
        view, *names = path.split("/")
        named = (" → " if view == "network" else "/").join(names) or view.capitalize()
        expect(page.locator("h2").locator("visible=true")).to_have_text(named)
        if zone := re.search("zone=(.)", query):
            expect(page.locator("#heat-title")).to_contain_text(f"node by node in zone {zone[1]}")
        for link in look(page, "addresses()"):
            kind = re.sub("[A-Da-e0-9]", "", link)  # one of those that are alike
            if kind not in seen and link.startswith("#/"):
                left.append(link)
            seen.add(kind)
    assert len(seen) > 12


@pytest.mark.parametrize("view", VIEWS)
def test_the_keyboard_alone_reaches_everything(page: Page, clusters: dict[int, str], view: str) -> None:
    reached = set[int]()
    opened(page, clusters[12], view, VIEWS[view])
    count = look(page, "stops()")
    for _ in range(count + 5):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("() => document.activeElement.stop"))
    assert set(range(count)) <= reached


def test_a_bad_node_its_page_and_the_heat_map(shown: Page, demo: str) -> None:
    shown.goto(f"{demo}/#/network")
    expect(shown.locator("#bad")).to_contain_text("node35 throughput: 16 of 16 links bad, for ")
    expect(shown.locator("#legend")).to_contain_text("green: good, up to 0.001 %")
    assert look(shown, "colours()") > 3, "it has colours and names"
    shown.locator("#bad").get_by_role("link", name="node35", exact=True).click()
    expect(shown.locator("#view-node")).to_contain_text("16 of 16 links bad")
    shown.get_by_role("table", name="Links").get_by_role("link", name="node28").click()
    expect(shown.get_by_role("row", name="throughput")).to_contain_text("10 Mbit/s")
    expect(shown.locator("#view-link")).to_contain_text("of 100 points")
    shown.goto(f"{demo}/#/network?zone=D")
    shown.get_by_role("button", name="delay").click()
    expect(shown.locator("#heat")).to_have_attribute("aria-label", "Heat-map of delay, nodes of zone D")
    expect(shown.locator("#worst")).to_contain_text("node33")
    shown.locator("#heat").press("ArrowRight")
    shown.locator("#heat").press("ArrowRight")
    expect(shown.locator("#heat-cell")).to_contain_text(re.compile("node28 → node29: .* ms"))
    shown.locator("#heat").press("Enter")
    expect(shown).to_have_url(f"{demo}/#/network/node28/node29")


def test_silent_agents_are_shown_with_time_and_zone(shown: Page, demo: str) -> None:
    """The demonstration has no agents: their lines are drawn from a section as the service sends it."""
    silent: dict[str, Any] = {"count": 17, "since_s": 1.0, "nodes": ["n1", "n2"], "zone": "B"}
    none = silent | {"count": 0}
    page = httpx.get(f"{demo}/v1/page?view=network", trust_env=False).json()
    page["network"]["agents"] = {"reporting": 19, "silent": silent, "unanswered": none, "absent": none}
    shown.route("**/v1/page?view=network", lambda route: route.fulfill(json=page))
    shown.goto(f"{demo}/#/network")
    lines = shown.locator("#sources li", has_text="agents")
    expect(lines.first).to_have_text("agents: 19 of 36 report and get answers")
    expect(lines.last).to_contain_text(re.compile("agents: 17 silent for .* d .*: n1, n2 …; all in zone B"))


def test_a_server_that_comes_back(page: Page, complaints: list[str]) -> None:
    [port] = free_ports(1)
    with served("demo", "--still", port=port) as url:
        page.goto(url)
        expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#state")).to_contain_text("trying again")
    with served("demo", "--still", port=port):
        expect(page.locator("#state")).to_have_text("live", timeout=20_000)
        page.goto("about:blank")
    complaints.clear()  # that the connection was refused meanwhile is said on the console, and true


def call(url: str, verb: str, *, limit_s: float = 30.0) -> None:
    body = (ROOT / f"examples/requests/{verb}-case1.json").read_bytes()
    httpx.post(f"{url}/{verb}", content=body, timeout=limit_s, trust_env=False).raise_for_status()
