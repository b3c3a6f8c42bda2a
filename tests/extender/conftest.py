"""Virtual time that goes on at once: nothing here comes from outside the loop without being waited for.

Certificates that several tests of TLS share: made once a session, never changed.
"""

from pathlib import Path

import msgspec
import pytest

from extender.settings.settings import TlsSettings
from tests.authority import Authority, Pair


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look for input once before time goes on, not 42 times: most of what the tests in virtual time did."""
    for item in items:
        if item.get_closest_marker("looptime") is not None:
            item.add_marker(pytest.mark.looptime(noop_cycles=1))


class Certificates(msgspec.Struct, frozen=True):
    """Two authorities, of which netgang trusts the first, and what they have signed."""

    ours: Authority
    theirs: Authority
    server: Pair
    client: Pair

    def settings(self, server: Pair | None = None, *, names: tuple[str, ...] = ()) -> TlsSettings:
        pair = server or self.server
        authority = self.ours.cert
        return TlsSettings(cert_file=pair.cert, key_file=pair.key, client_ca_file=authority, client_names=names)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    directory: Path = tmp_path_factory.mktemp("certificates")
    ours, theirs = Authority.made(directory, "ours"), Authority.made(directory, "theirs")
    client = ours.issue("system:kube-scheduler", san="DNS:scheduler.example.org")
    return Certificates(ours, theirs, ours.server(), client)
