"""Draw docs/pictures/page-*.png again, from the demonstration in Chromium: `python -m tests.browser.pictures`."""

import shutil
import subprocess
import sys

from playwright.sync_api import expect, sync_playwright

from tests.browser.conftest import ROOT, served

PICTURES = ROOT / "docs/pictures"
SHOTS = {  # name: (colour scheme, width, height)
    "page-light": ("light", 1400, 900),
    "page-dark": ("dark", 1400, 900),
    "page-narrow": ("light", 400, 900),
}


def main() -> None:
    path = shutil.which("chromium")
    if path is None:
        sys.exit("chromium is not installed (apt-get install chromium)")
    with served("demo") as url, sync_playwright() as playwright:
        subprocess.run(["bash", ROOT / "examples/whole-gang.sh", url], check=True, capture_output=True, timeout=60)
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for name, (scheme, width, height) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(url)
            expect(page.locator("#state")).to_have_text("live")
            expect(page.locator("#running-rows").get_by_text("demo/case1")).to_be_visible()
            expect(page.get_by_text("1 gang, heaviest first")).to_be_visible()
            page.screenshot(path=PICTURES / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
