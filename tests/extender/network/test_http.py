"""The HTTP client of the sources: credentials that appear nowhere, limits, errors that name address and cause."""

import base64
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.errors import ConfigError, NetworkSourceError
from extender.network.sources.http import HttpClient, HttpServer, Secret, verification

URL = "https://archive.example.org/opensearch"
OWN = Path(__file__).parents[2] / "fixtures" / "tls" / "loopback.crt"


def client(answer: Callable[[httpx.Request], httpx.Response] | None = None, **server: object) -> HttpClient:
    """A client whose server is a function; by default it says what authorization it got, with status 403."""

    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, text=f"no entry with {request.headers.get('authorization')}")

    return HttpClient(HttpServer(URL, **server), transport=httpx.MockTransport(answer or echo))  # type: ignore[arg-type]


async def refusal(one: HttpClient) -> str:
    with pytest.raises(NetworkSourceError) as caught:
        await one.ask("GET", "/x")
    await one.aclose()
    return str(caught.value)


async def test_a_token_goes_along_and_into_no_text(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret-one\n")
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["authorization"])
        return httpx.Response(401, text=f"bad: {request.headers['authorization']}")

    one = client(answer, token=Secret(file=file))
    texts = []
    for token in ("s3cret-one", "s3cret-two"):
        file.write_text(token)
        with pytest.raises(NetworkSourceError) as caught:
            await one.ask("GET", "/x")
        texts.append(str(caught.value))
    assert sent == ["Bearer s3cret-one", "Bearer s3cret-two"]
    assert texts[0] == f"{URL}/x: status 401: username, password or token are missing or wrong: bad: Bearer …"
    assert not any("s3cret" in text for text in texts)
    await one.aclose()


async def test_a_password_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pa55 word")
    text = await refusal(client(username="me", password=Secret(tmp_path / "password")))
    encoded = base64.b64encode(b"me:pa55 word").decode()
    assert "pa55" not in text
    assert encoded not in text
    assert "status 403" in text


async def test_without_credentials_nothing_is_sent() -> None:
    assert "no entry with None" in await refusal(client())


SECRETS = {  # case: (what is said, secret)
    "no file": (r"secret file .*nowhere cannot be read: FileNotFoundError", Secret(file=Path("nowhere"))),
}


@pytest.mark.parametrize(("want", "secret"), SECRETS.values(), ids=SECRETS)
async def test_a_secret_that_is_not_there(want: str, secret: Secret) -> None:
    one = client(token=secret)
    with pytest.raises(NetworkSourceError, match=want):
        await one.ask("GET", "/x")
    await one.aclose()


async def test_a_secret_of_several_lines_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\r\nX-Other: second")
    text = await refusal(client(token=Secret(file=file)))
    assert "is empty or no line of plain characters" in text
    assert "second" not in text


async def test_an_error_without_words_has_its_name() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("")

    assert await refusal(client(answer)) == f"{URL}/x: ReadTimeout"


async def test_limits() -> None:
    """An answer that is too large is not kept, whatever its header says."""
    one = client(lambda _: httpx.Response(200, content=b"x" * 2000), body_limit_bytes=1000)
    assert await refusal(one) == f"{URL}/x: the answer has more than 1000 bytes"


WRONG = {  # case: (what is said, settings)
    "no address": ("accepted is http", {"url": "archive"}),
    "a file": ("accepted is http", {"url": "file:///etc/passwd"}),
    "a query": ("accepted is http", {"url": "http://archive.lab.example/?a=b"}),
    "a port that is none": ("accepted: https://HOST/PATH", {"url": "http://archive.lab.example:http/"}),
    "a user in the address": ("a user name has its own setting", {"url": "https://me:pw@h"}),
    "no such authority": ("ca_file missing.pem", {"url": "https://h", "ca_file": Path("missing.pem")}),
}


@pytest.mark.parametrize(("want", "settings"), WRONG.values(), ids=WRONG)
def test_wrong_settings(want: str, settings: dict[str, Any]) -> None:
    """They are refused at start, without repeating a password."""
    with pytest.raises(ConfigError, match=want) as caught:
        HttpClient(HttpServer(**settings))
    assert "pw" not in str(caught.value)


def test_a_ca_file_adds_to_the_systems() -> None:
    """A site with one self-signed host need not give up all the others."""
    system = verification(ca_file=None, insecure=False).cert_store_stats()["x509"]
    assert verification(ca_file=OWN, insecure=False).cert_store_stats()["x509"] == system + 1


def test_only_insecure_switches_the_check_off() -> None:
    context = verification(ca_file=None, insecure=True)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    context = verification(ca_file=OWN, insecure=False)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize("text", [None, "no certificate"], ids=["no such file", "no certificate in it"])
def test_a_bad_file_is_named(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=f"ca_file {file}: .*; accepted: a PEM file"):
        verification(ca_file=file, insecure=False)
