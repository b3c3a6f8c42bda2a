"""The page as a person uses it: it renders, follows, explains, obeys the keyboard, and complains of nothing."""

import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from lab.testbed.processes.network import free_ports
from tests.browser.conftest import ROOT, Watched, served

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]


def test_it_renders(shown: Page) -> None:
    expect(shown.locator("#state")).to_have_text("live")
    expect(shown.locator("#queue-rows tr")).to_have_count(2)
    row = shown.locator("#queue-rows tr[data-gang='demo/tf-smoke-gpu']")
    expect(row).to_contain_text("netgang: the gang would not fit into the empty cluster")
    expect(shown.locator("#zone-list .zone-card")).to_have_count(4)
    expect(shown.locator("#sources")).to_contain_text("file")
    expect(shown.locator("#decision-list")).to_contain_text("demo/case1")
    expect(shown.locator("#legend")).to_contain_text("up to 0.001 %")
    assert drawn(shown) > 1, "the heat-map has more than one colour"


def test_a_change_is_seen_without_a_reload(shown: Page, demo: str) -> None:
    expect(shown.locator("#gate-list")).to_contain_text("no gang")
    shown.evaluate(
        """() => {
          window.seen = new Promise((done) => new MutationObserver((_, self) => {
            if (document.querySelector("#gate-list .pods .h")) { self.disconnect(); done(performance.now()); }
          }).observe(document.getElementById("gate-list"), { childList: true, subtree: true }));
        }"""
    )
    call(demo, "filter")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(call, demo, "bind", limit_s=5.0)
        assert shown.evaluate("() => window.seen")  # ends with the test's limit if nothing is ever seen
        expect(shown.locator("#gate-list")).to_contain_text("demo/case1")
        with pytest.raises(TimeoutError):  # the caller hangs up, since five of six never come
            held.result(timeout=40)
    expect(shown.locator("#gate-list")).to_contain_text("no gang")


def test_it_explains(shown: Page) -> None:
    link = shown.get_by_role("button", name="demo/tf-smoke-gpu").first
    link.click()
    dialog = shown.get_by_role("dialog")
    expect(dialog).to_contain_text("would not fit into the empty cluster")
    expect(dialog).to_contain_text("ZoneTooSmall: Even empty, zone A has room for 2 of 4 pods")
    expect(dialog).to_contain_text("each). Lower minMember of the PodGroup to 3.")
    expect(dialog.get_by_role("table").first).to_be_visible()
    shown.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(link).to_be_focused()


def test_what_people_come_for_is_seen_without_scrolling(watched: Watched, demo: str) -> None:
    page = watched.page
    page.set_viewport_size({"width": 1400, "height": 900})
    page.goto(demo)
    expect(page.locator("#demo")).to_be_visible()
    expect(page.locator("#degraded-list")).to_contain_text("loss: 16 of 16 links bad")
    expect(page.locator("#decision-list")).to_contain_text("demo/case1")
    rows = ("#queue-rows tr", "#running-rows tr", "#degraded-list li", "#zone-list .zone-card", "#decision-list li")
    for first in rows:
        box = page.locator(first).first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 900, first
    assert page.evaluate("() => document.documentElement.scrollHeight <= window.innerHeight")


def test_a_bad_link_is_shown_with_its_two_directions(shown: Page) -> None:
    shown.locator("#degraded-list").get_by_role("button", name="node35").click()
    dialog = shown.get_by_role("dialog")
    expect(dialog).to_contain_text("of 100 points")
    expect(dialog.get_by_role("row", name="throughput")).to_contain_text("10 Mbit/s")


def test_the_heat_map_obeys_the_keyboard(shown: Page) -> None:
    shown.get_by_role("button", name="delay").click()
    shown.locator("#zone").select_option("D")
    expect(shown.locator("#heat")).to_have_attribute("aria-label", "Heat-map of delay, nodes of zone D")
    shown.locator("#heat").focus()
    for _ in range(2):
        shown.keyboard.press("ArrowRight")
    expect(shown.locator("#heat-cell")).to_contain_text("node28 → node")
    expect(shown.locator("#heat-cell")).to_contain_text("ms")
    expect(shown.locator("#worst")).to_contain_text("node33")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1500, 2560])
def test_it_fits(watched: Watched, demo: str, scheme: str, width: int) -> None:
    page = watched.page
    page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(demo)
    expect(page.locator("#queue-rows tr")).to_have_count(2)
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate((Path(__file__).parent / "contrasts.js").read_text()) == []


AGENTS = """async () => {
  const none = { count: 0, since_s: null, nodes: [], zone: null };
  const silent = { count: 17, since_s: Date.now() / 1000 - 130, nodes: ["n1", "n2"], zone: "B" };
  const { drawDegraded } = await import("/page/links.js");
  const { tick } = await import("/page/panels.js");
  drawDegraded([], { reporting: 19, silent, unanswered: none, absent: none });
  tick();
}"""


def test_silent_agents_are_shown_with_time_and_zone(shown: Page) -> None:
    """The demonstration has no agents: their lines are drawn from a section as the service sends it."""
    expect(shown.locator("#degraded-list")).to_contain_text("node35")
    shown.evaluate(AGENTS)
    expect(shown.locator("#degraded-of")).to_have_text("17 agents silent or blocked")
    expect(shown.locator("#agents li").first).to_have_text("probe: 19 of 36 agents report and get answers")
    expect(shown.locator("#agents .bad")).to_contain_text("probe: 17 silent for 2 min")
    expect(shown.locator("#agents .bad")).to_contain_text("n1, n2 …; all in zone B")


def test_a_server_that_comes_back(watched: Watched) -> None:
    page, [port] = watched.page, free_ports(1)
    with served("demo", port=port) as url:
        page.goto(url)
        expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#state")).to_contain_text("trying again")
    with served("demo", port=port):
        expect(page.locator("#state")).to_have_text("live", timeout=20_000)
        page.goto("about:blank")
    watched.complaints.clear()  # that the connection was refused meanwhile is said on the console, and true


def drawn(page: Page) -> int:
    found: int = page.evaluate(
        """() => {
          const canvas = document.getElementById("heat");
          const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let i = 0; i < pixels.length; i += 4) seen.add(pixels.slice(i, i + 4).join());
          return seen.size;
        }"""
    )
    return found


def call(url: str, verb: str, *, limit_s: float = 30.0) -> bytes:
    body = (ROOT / f"examples/requests/{verb}-case1.json").read_bytes()
    request = urllib.request.Request(f"{url}/{verb}", body, {"user-agent": "curl/8"})
    with urllib.request.urlopen(request, timeout=limit_s) as answer:
        return answer.read()
