"""What the documents say exists, does exist: links, files, make targets, settings, annotations, metrics."""

import re
from pathlib import Path

import pytest
import yaml

from extender.runtime.telemetry import Telemetry
from extender.settings.settings import Settings
from tests.contract.docs.vocabulary import VOCABULARY
from tests.contract.reference import pages as reference
from tests.newcomer.document import fenced

ROOT = Path(__file__).parents[3]
DOCUMENTS = (
    *(ROOT / n for n in ("README.md", "CHANGELOG.md", "examples/README.md")),
    *sorted(
        path for path in (ROOT / "docs").rglob("*.md") if str(path.relative_to(ROOT / "docs")) not in reference.PAGES
    ),
)
OURS: tuple[str, ...] = ("docs", "examples", "manifests", "scheduler-config", "extender", "scoring", "testbed", "bench")
OURS += ("cli", "client", "lab", "probe", "tests")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


@pytest.fixture(params=DOCUMENTS, ids=[str(path.relative_to(ROOT)) for path in DOCUMENTS])
def document(request: pytest.FixtureRequest) -> Path:
    return request.param


def _commands() -> list[str]:
    blocks = [block for path in DOCUMENTS for block in fenced(path.read_text(), "sh")]
    return [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]


def _text(path: Path) -> str | None:
    """Of a page that is committed or written from the code; `None`: there is none."""
    written = reference.PAGES.get(str(path.relative_to(ROOT / "docs"))) if path.is_relative_to(ROOT / "docs") else None
    if written is not None:
        return written()
    return path.read_text() if path.exists() else None


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        assert path.is_relative_to(ROOT), f"{document.name}: {target}"
        assert path.exists() or _text(path) is not None, f"{document.name}: {target}"
        assert not anchor or anchor in _anchors(_text(path) or ""), f"{document.name}: {target}"


def test_paths_in_the_text_exist(document: Path) -> None:
    for code in CODE.findall(document.read_text()):
        if re.fullmatch(rf"(?:{'|'.join(OURS)})/[\w./-]*", code) and not code.startswith("lab/bench/out"):
            assert (ROOT / code).exists(), f"{document.name}: {code}"


def test_pages_that_other_files_cite_exist() -> None:
    names = ("charts", "examples", "lab", "manifests", "scheduler-config", "scoring", "tests")
    folders = [*(ROOT / name for name in names), *(one.parent for one in ROOT.glob("*/__init__.py"))]
    kinds = {".py", ".yaml", ".txt", ".md", ".sh"}
    files = {path for folder in folders for path in folder.rglob("*") if path.suffix in kinds}
    cited = {(path, page) for path in files for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())}
    assert len(cited) > 50
    assert sorted(f"{path.relative_to(ROOT)}: {page}" for path, page in cited if _text(ROOT / page) is None) == []


def test_paths_in_commands_exist() -> None:
    named = [word.lstrip("@") for line in _commands() for word in line.split()]
    paths = [ROOT / word for word in named if word.startswith(tuple(f"{name}/" for name in OURS))]
    assert len(paths) >= 6
    assert [path for path in paths if not path.exists()] == []
    assert all(path.stat().st_mode & 0o100 for path in paths if path.suffix == ".sh")


def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    shown = [line for block in fenced(text, "sh") for line in block.splitlines()] + CODE.findall(text)
    named = {match for line in shown for match in re.findall(r"^make ([a-z0-9-]+)", line)}
    assert named <= targets


def test_yaml_in_documents_is_yaml(document: Path) -> None:
    for content in (one for block in fenced(document.read_text(), "yaml") for one in yaml.safe_load_all(block)):
        if isinstance(content, dict) and content.keys() <= set(Settings.model_fields):
            assert Settings(**content) != Settings()


def test_annotations_in_documents_exist(document: Path) -> None:
    known = {word.name for word in VOCABULARY}
    assert set(re.findall(r"`(netgang\.io/[a-z-]+)[`:=]", document.read_text())) <= known


def test_metrics_in_documents_exist(document: Path) -> None:
    known = set(re.findall(r"^# TYPE (\w+)", Telemetry().exposition().decode(), re.MULTILINE))
    named = set(re.findall(r"`(netgang_\w+)`", document.read_text()))
    removed = named if document.name == "CHANGELOG.md" else set[str]()  # it also says what there was
    assert named - known - removed - {"netgang_report"} == set()  # which is a package


def test_documents_stand_by_themselves(document: Path) -> None:
    text = document.read_text()
    assert not re.search(r"(?<![\w.])/(?:root|home|work|tmp)\b", text)
    assert not re.search(r"\b(?:TODO|FIXME)\b", text)
