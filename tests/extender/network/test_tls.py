"""What a measurement server's certificate is checked against."""

import ssl
from pathlib import Path

import pytest

from extender.errors import ConfigError
from extender.network.sources.tls import verification

OWN = Path(__file__).parents[2] / "fixtures" / "tls" / "loopback.crt"


def test_a_ca_file_adds_to_the_systems() -> None:
    """A site with one self-signed host need not give up all the others."""
    system = verification(ca_file=None, insecure=False).cert_store_stats()["x509"]
    assert verification(ca_file=OWN, insecure=False).cert_store_stats()["x509"] == system + 1


def test_only_insecure_switches_the_check_off() -> None:
    """And then the name is not checked either."""
    context = verification(ca_file=None, insecure=True)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    context = verification(ca_file=OWN, insecure=False)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize("text", [None, "no certificate"], ids=["no such file", "no certificate in it"])
def test_a_bad_file_is_named(tmp_path: Path, text: str | None) -> None:
    """The error names the setting and the file."""
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=f"ca_file {file}: .*; accepted: a PEM file"):
        verification(ca_file=file, insecure=False)
