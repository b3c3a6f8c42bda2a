"""No settings come from the environment in which the tests run."""

import os

import pytest


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("NETGANG_")]:
        monkeypatch.delenv(name)
