"""Certificates that several tests of TLS share: made once a session, never changed."""

from pathlib import Path

import msgspec
import pytest
import uvloop

from extender.settings.settings import TlsSettings
from tests.authority import Authority, Pair


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


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What our TLS has logged; other loggers may be at any level, as the tests before have left them."""
    return [record.getMessage() for record in caplog.records if record.name == "netgang.tls"]


@pytest.fixture
def event_loop_policy() -> uvloop.EventLoopPolicy:
    return uvloop.EventLoopPolicy()
