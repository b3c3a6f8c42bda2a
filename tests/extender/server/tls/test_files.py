"""Certificate files that can be used, and the sentences about those that cannot."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from extender.errors import ConfigError
from extender.runtime.clock import SystemClock
from extender.server.tls.files import CLIENT_CA, SERVER, Loaded, load, marks_of
from extender.settings.ports import TlsSettings
from tests.authority import Authority, Pair, openssl
from tests.extender.server.tls.conftest import Certificates

DAY_S = 86_400.0
NOW_S = SystemClock().now_s


def _loaded(settings: TlsSettings, *, now_s: Callable[[], float] = NOW_S) -> Loaded:
    return load(settings, lambda _outcome, _more: None, now_s=now_s)


def _refusal(settings: TlsSettings, *, now_s: Callable[[], float] = NOW_S) -> str:
    with pytest.raises(ConfigError) as caught:
        _loaded(settings, now_s=now_s)
    return str(caught.value)


def test_good_files_make_a_context_that_demands_a_certificate(certificates: Certificates) -> None:
    loaded = _loaded(certificates.settings())
    assert (loaded.for_verbs.verify_mode, loaded.for_people.verify_mode) == (ssl.CERT_REQUIRED, ssl.CERT_NONE)
    assert {loaded.for_verbs.minimum_version, loaded.for_people.minimum_version} == {ssl.TLSVersion.TLSv1_2}
    assert loaded.ends_s.keys() == {SERVER, CLIENT_CA}
    assert all(29 * DAY_S < ends_s - NOW_S() < 31 * DAY_S for ends_s in loaded.ends_s.values())


def test_without_authorities_no_certificate_is_demanded(certificates: Certificates) -> None:
    settings = TlsSettings(cert_file=certificates.server.cert, key_file=certificates.server.key)
    loaded = _loaded(settings)
    assert (loaded.for_verbs.verify_mode, set(loaded.ends_s)) == (ssl.CERT_NONE, {SERVER})


def test_the_first_authority_to_end_is_shown(certificates: Certificates, tmp_path: Path) -> None:
    old, short = Authority.made(tmp_path, "old", days=-1), Authority.made(tmp_path, "short", days=3)
    bundle = tmp_path / "bundle.crt"
    bundle.write_text("".join(one.read_text() for one in (old.cert, certificates.ours.cert, short.cert)))
    loaded = _loaded(certificates.settings().model_copy(update={"client_ca_file": bundle}))
    assert 2 * DAY_S < loaded.ends_s[CLIENT_CA] - NOW_S() < 4 * DAY_S
    assert loaded.for_verbs.cert_store_stats()["x509_ca"] == 3


def _text(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _block(kind: str, content: str) -> str:
    return f"-----BEGIN {kind}-----\n{content}\n-----END {kind}-----\n"


def _encrypted(certificates: Certificates, path: Path) -> Path:
    openssl("pkey", "-in", str(certificates.server.key), "-aes256", "-passout", "pass:x", "-out", str(path))
    return path


def _small(path: Path) -> Pair:
    """An RSA key of 512 bits, which OpenSSL refuses at its usual level of security."""
    pair = Pair(path / "small.crt", path / "small.key")
    openssl("req", "-x509", "-newkey", "rsa:512", "-nodes", "-subj", "/CN=small", "-days", "9",
            "-keyout", str(pair.key), "-out", str(pair.cert))  # fmt: skip
    return pair


NO_FILE = "cannot be read: No such file or directory; accepted: a PEM file with"
NOT_ITS_KEY = "is not the key of the certificate in tls.cert_file = …; give the key that"
Made = Callable[[Certificates, Path], dict[str, Path]]
UNUSABLE: dict[str, tuple[str, Made]] = {  # case: (what the refusal says; settings that are not good)
    "no certificate": (f"tls.cert_file = …/none: {NO_FILE} the server's", lambda _, tmp: {"cert_file": tmp / "none"}),
    "a directory": ("tls.cert_file = …: cannot be read: Is a directory", lambda _, tmp: {"cert_file": tmp}),
    "a key for a certificate": (
        "tls.cert_file = …ours-netgang.key: holds no certificate; accepted: a PEM file",
        lambda all_, _: {"cert_file": all_.server.key},
    ),
    "a damaged certificate": (
        "tls.cert_file = …: not a certificate: …; accepted: a PEM file",
        lambda _, tmp: {"cert_file": _text(tmp / "x", _block("CERTIFICATE", "MAAA"))},
    ),
    "no key file": (f"tls.key_file = …/none: {NO_FILE} a private key", lambda _, tmp: {"key_file": tmp / "none"}),
    "a certificate for a key": (
        "tls.key_file = …: holds no private key; accepted: a PEM file with the key",
        lambda all_, _: {"key_file": all_.server.cert},
    ),
    "another key": (f"tls.key_file = …: {NOT_ITS_KEY}", lambda all_, _: {"key_file": all_.client.key}),
    "a key of another kind": (f"tls.key_file = …: {NOT_ITS_KEY}", lambda _, tmp: {"key_file": _small(tmp).key}),
    "an encrypted key": (
        "tls.key_file = …: is encrypted, and netgang has no password for it; decrypt it: openssl pkey -in FILE",
        lambda all_, tmp: {"key_file": _encrypted(all_, tmp / "secret.key")},
    ),
    "a damaged key": (
        "tls.cert_file = …, tls.key_file = …: OpenSSL cannot use them: …; accepted: PEM, RSA of 2048",
        lambda _, tmp: {"key_file": _text(tmp / "x", _block("PRIVATE KEY", "AAAA"))},
    ),
    "a key that is too weak": (
        "OpenSSL cannot use them: ee key too small; accepted: PEM, RSA of 2048 bits or more",
        lambda _, tmp: {"cert_file": _small(tmp).cert, "key_file": tmp / "small.key"},
    ),
    "an expired certificate": (
        "tls.cert_file = …: expired on 20… UTC; renew it",
        lambda all_, tmp: {"cert_file": all_.ours.server("old", days=-1, file=str(tmp / "old")).cert},
    ),
    "no authorities": (f"tls.client_ca_file = …/none: {NO_FILE}", lambda _, tmp: {"client_ca_file": tmp / "none"}),
    "authorities without certificates": (
        "tls.client_ca_file = …: holds no certificate; accepted: a PEM file with the certificates",
        lambda _, tmp: {"client_ca_file": _text(tmp / "ca.crt", "# none yet\n")},
    ),
    "a client's certificate for an authority": (
        "tls.client_ca_file = …: holds certificates, but of no authority (CA:TRUE); accepted",
        lambda all_, _: {"client_ca_file": all_.client.cert},
    ),
    "an expired authority": (
        "tls.client_ca_file = …: expired on … UTC; renew it",
        lambda _, tmp: {"client_ca_file": Authority.made(tmp, "old", days=-1).cert},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("want", "made"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_cannot_be_used_is_named(want: str, made: Made, certificates: Certificates, tmp_path: Path) -> None:
    settings = certificates.settings().model_copy(update=made(certificates, tmp_path))
    assert re.search(re.escape(want).replace("…", ".+"), _refusal(settings))


def test_a_certificate_of_tomorrow_is_refused_today(certificates: Certificates) -> None:
    """No client would accept it yet; perhaps it is our clock."""
    text = _refusal(certificates.settings(), now_s=lambda: NOW_S() - DAY_S)
    assert re.search("not valid before 20.*correct this machine's clock", text)


def test_no_secret_is_in_a_refusal(certificates: Certificates) -> None:
    """Texts go to logs: not a line of a key is in them."""
    settings = certificates.settings().model_copy(update={"key_file": certificates.client.key})
    lines = certificates.client.key.read_text().splitlines()[1:-1]
    assert not [line for line in lines if line in _refusal(settings)]


def test_a_pair_that_changes_while_it_is_read_is_read_again(certificates: Certificates, tmp_path: Path) -> None:
    """A certificate of after with a key of before is no mistake: the second look finds both new."""
    pair = certificates.server.into(tmp_path)
    settings = certificates.settings(pair)
    steps = iter([(certificates.client.cert, pair.cert), (certificates.client.key, pair.key)])

    def a_step_further() -> float:
        new, old = next(steps)
        old.write_bytes(new.read_bytes())
        return NOW_S()

    loaded = _loaded(settings, now_s=a_step_further)
    assert next(steps, None) is None
    assert loaded.marks != marks_of(settings), "the last step came after the look: the next one reads once more"


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
