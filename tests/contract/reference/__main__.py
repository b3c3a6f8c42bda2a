"""`python -m tests.contract.reference` writes the pages again."""

from tests.contract.reference.pages import PAGES, ROOT

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page())
