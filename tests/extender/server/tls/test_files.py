"""Certificate files that can be used, and the sentences about those that cannot."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.errors import ConfigError
from extender.runtime.clock import SystemClock
from extender.server.tls.files import CLIENT_CA, SERVER, load, marks_of
from extender.settings.ports import TlsSettings
from tests.authority import Authority, Pair
from tests.extender.server.tls.conftest import Certificates

DAY_S = 86_400.0
NOW_S = SystemClock().now_s


def _refusal(settings: TlsSettings) -> str:
    with pytest.raises(ConfigError) as caught:
        load(settings, now_s=NOW_S())
    return str(caught.value)


def test_good_files_make_a_context_that_demands_a_certificate(certificates: Certificates) -> None:
    loaded = load(certificates.settings(), now_s=NOW_S())
    assert (loaded.for_verbs.verify_mode, loaded.for_people.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)
    assert {loaded.for_verbs.minimum_version, loaded.for_people.minimum_version} == {ssl.TLSVersion.TLSv1_2}
    assert loaded.ends_s.keys() == {SERVER, CLIENT_CA}
    assert all(29 * DAY_S < ends_s - NOW_S() < 31 * DAY_S for ends_s in loaded.ends_s.values())


def _text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _block(kind: str, content: str) -> str:
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"


def _files(pair: Pair) -> dict[str, Path]:
    return {"cert_file": pair.cert, "key_file": pair.key}


NO_FILE = "cannot be read: No such file or directory; accepted: a PEM file with"
NOT_ITS_KEY = "is not the key of the certificate in tls.cert_file = …; give the key that"
Made = Callable[[Certificates, Path], dict[str, Path]]
UNUSABLE: dict[str, tuple[str, Made]] = {  # case: (what the refusal says; settings that are not good)
    "no certificate": (f"tls.cert_file = …/none: {NO_FILE} the server's", lambda _, tmp: {"cert_file": tmp / "none"}),
    "a damaged certificate": (
        "tls.cert_file = …, tls.key_file = …: OpenSSL cannot use them: …; accepted: PEM",
        lambda _, tmp: {"cert_file": _text(tmp / "x", _block("CERTIFICATE", "MAAA"))},
    ),
    "no key file": (f"tls.key_file = …/none: {NO_FILE} a private key", lambda _, tmp: {"key_file": tmp / "none"}),
    "another key": (f"tls.key_file = …: {NOT_ITS_KEY}", lambda all_, _: {"key_file": all_.client.key}),
    "an expired certificate": (
        "tls.cert_file = …: no client would accept it: certificate has expired; renew it",
        lambda all_, tmp: _files(all_.ours.server("old", days=-1, file=str(tmp / "old"))),
    ),
    "no authorities": (f"tls.client_ca_file = …/none: {NO_FILE}", lambda _, tmp: {"client_ca_file": tmp / "none"}),
    "a client's certificate for an authority": (
        "tls.client_ca_file = …: holds no certificate of an authority (CA:TRUE); accepted",
        lambda all_, _: {"client_ca_file": all_.client.cert},
    ),
    "an expired authority": (
        "tls.client_ca_file = …: every certificate in it has expired; renew it",
        lambda _, tmp: {"client_ca_file": Authority.made(tmp, "old", days=-1).cert},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("want", "made"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_cannot_be_used_is_named(want: str, made: Made, certificates: Certificates, tmp_path: Path) -> None:
    settings = replace(certificates.settings(), **made(certificates, tmp_path))
    assert re.search(re.escape(want).replace("…", ".+"), _refusal(settings))


def test_no_secret_is_in_a_refusal(certificates: Certificates) -> None:
    """Texts go to logs: not a line of a key is in them."""
    settings = replace(certificates.settings(), key_file=certificates.client.key)
    lines = certificates.client.key.read_text().splitlines()[1:-1]
    assert not [line for line in lines if line in _refusal(settings)]


def test_a_kubelet_s_swap_is_another_version(certificates: Certificates, tmp_path: Path) -> None:
    """Files of a mounted Secret are links through one directory link, which the kubelet replaces in one step."""
    for version in ("first", "second"):
        (tmp_path / version).mkdir()
        certificates.server.into(tmp_path / version)
    (tmp_path / "..data").symlink_to("first")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    settings = certificates.settings(Pair(tmp_path / "tls.crt", tmp_path / "tls.key"))
    before = marks_of(settings)
    (tmp_path / "..data.new").symlink_to("second")
    (tmp_path / "..data.new").rename(tmp_path / "..data")
    assert marks_of(settings) != before
    (tmp_path / "tls.key").unlink()
    assert len(marks_of(settings)) == 3
