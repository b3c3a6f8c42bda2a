"""A server for reports at the address that the environment names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extender.controllers.elastic.reporting import Sink


@pytest.fixture
def sink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    (tmp_path / "token").write_text("sesame\n")
    monkeypatch.setenv("NETGANG_TOKEN_FILE", str(tmp_path / "token"))
    with Sink() as made:
        monkeypatch.setenv("NETGANG_REPORT_URL", made.url)
        yield made
