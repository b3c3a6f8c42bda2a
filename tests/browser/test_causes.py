"""Why a gang waits, in the words that a reader sees on the page: rendered by a real Chromium."""

from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, Route, expect

from extender.web.page import queue_section
from scoring.explain.queue_report import report
from tests.browser.conftest import Watched
from tests.scoring.explain.cases import CASES, Case, explained


def row_of(case: Case) -> dict[str, Any]:
    _, made, state = explained(case)
    queue = queue_section(report(state, made, case.policy, now_s=0.0))
    return next(row for row in msgspec.to_builtins(queue)["rows"] if row["gang"] == case.wanted.key)


pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(120)]

CLICKED = (
    "six of nine nodes are cordoned",
    "nodeSelector: a value misspelt",
    "running pods leave each worker 12 of 16 cpu, beside a ps",
    "too few members",
)


def given(page: Page, cases: dict[str, Case]) -> dict[str, str]:
    """The page asks the demonstration, and hears of these gangs alone; case → the name that its gang has there."""
    names = {name: f"default/g{number}" for number, name in enumerate(cases)}
    documents = {names[name]: msgspec.to_builtins(explained(case)[0]) for name, case in cases.items()}
    rows = [row_of(case) | {"gang": names[name]} for name, case in cases.items()]
    queue = {"order": "weight", "counts": {"WAITING": len(rows)}, "rows": rows, "of": len(rows)}

    def explain(route: Route) -> None:
        route.fulfill(json=documents["/".join(route.request.url.split("/")[-2:])])

    page.route("**/v1/page", lambda route: route.fulfill(json={"queue": queue}))
    page.route("**/v1/explain/**", explain)
    return names


def test_a_click_on_a_row_of_the_queue_shows_the_cause(watched: Watched, demo: str) -> None:
    page, cases = watched.page, {name: CASES[name] for name in CLICKED}
    names = given(page, cases)
    page.goto(demo)
    for name, case in cases.items():
        row = page.locator(f"#queue-rows tr[data-gang='{names[name]}']")
        expect(row).to_contain_text(row_of(case)["reason"])
        row.get_by_role("button").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text(f"{case.reason}: ")
        text = dialog.inner_text()
        assert [words for words in (f"{case.reason}: ", *case.says) if words not in text] == []
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
