"""Configured sources and their HTTP client: credentials that appear nowhere, limits, errors that name the cause."""

import asyncio
import base64
import gc
import gzip
import os
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.bootstrap import live, source_of
from extender.errors import ConfigError, NetworkSourceError
from extender.network.http import HttpClient, verification
from extender.network.opensearch import OpenSearchSource
from extender.network.prometheus import PrometheusSource
from extender.settings.network import HttpSource
from extender.settings.settings import Settings
from tests.extender.network.replies import no_server, replies
from tests.fakes.api_proxy import kubeconfig
from tests.fakes.raw_http import CERTIFICATE, Answer, RawServer, drip, endless, hang, ok, reset

__all__ = ["no_server"]
URL = "https://archive.example.org/opensearch"


def client(answer: httpx.Response | httpx.HTTPError | None = None, **server: Any) -> HttpClient:
    """A client of a server that answers this; by default with status 403, and what authorization it got."""

    def echo(request: httpx.Request) -> httpx.Response:
        return httpx.Response(403, text=f"no entry with {request.headers.get('authorization')}")

    replies.route().mock(side_effect=echo if answer is None else [answer])
    return HttpClient(HttpSource(URL, **server))


async def refusal(one: HttpClient) -> str:
    with pytest.raises(NetworkSourceError) as caught:
        await one.ask("GET", "/x")
    return str(caught.value)


async def test_a_token_is_read_each_time_and_goes_into_no_text(tmp_path: Path) -> None:
    file = tmp_path / "token"
    one = client(token_file=file)
    texts = []
    for token in ("s3cret-one\n", "s3cret-two"):
        file.write_text(token)
        texts.append(await refusal(one))
    sent = [call.request.headers["authorization"] for call in replies.calls]
    assert sent == ["Bearer s3cret-one", "Bearer s3cret-two"]
    assert texts == [f"{URL}/x: status 403: this user may not read it: no entry with Bearer …"] * 2


async def test_a_password_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("pa55 word")
    text = await refusal(client(username="me", password_file=tmp_path / "password"))
    encoded = base64.b64encode(b"me:pa55 word").decode()
    assert ("pa55" in text, encoded in text, "status 403" in text) == (False, False, True)


async def test_without_credentials_nothing_is_sent() -> None:
    assert "no entry with None" in await refusal(client())
    said = await refusal(client(token_file=Path("nowhere")))
    assert said == "secret file nowhere cannot be read: FileNotFoundError"


async def test_a_secret_of_several_lines_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\r\nX-Other: second")
    text = await refusal(client(token_file=file))
    assert ("is empty or no line of plain characters" in text, "second" in text) == (True, False)


async def test_an_error_without_words_has_its_name() -> None:
    assert await refusal(client(httpx.ReadTimeout(""))) == f"{URL}/x: ReadTimeout"


def packed(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


FAULTS: dict[str, tuple[Answer, str]] = {  # fault of a connection: (answer, what is said)
    "one byte at a time": (drip, "no complete answer within 0.5 s"),
    "no answer": (hang, "no complete answer within 0.5 s"),
    "cut off": (ok(b"[" * 99)[:-30], "peer closed connection"),
    "too large, whatever its header says": (ok(b"x" * 200_001), "the answer has more than 200000 bytes"),
    "endless": (endless, "the answer has more than 200000 bytes"),
    "a bomb": (packed(gzip.compress(b"[" * 5_000_000)), "the answer has more than 200000 bytes"),
    "not gzip": (packed(b"no"), "Error"),
    "garbage": (b"\x00\xff\x13\x37 not HTTP\r\n\r\n", "/x: "),
    "reset": (reset, "/x: "),
    "moved": (
        b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.example.org/login?token=1\r\n\r\n",
        "/x: status 302: moved to https://elsewhere.example.org/login: configure that address",
    ),
}


def served(server: RawServer, *, ca_file: Path | None = CERTIFICATE) -> HttpClient:
    replies.route().pass_through()
    return HttpClient(HttpSource(server.url, ca_file=ca_file, timeout_s=0.5, body_limit_bytes=200_000))


@pytest.mark.parametrize(("answer", "said"), FAULTS.values(), ids=FAULTS)
async def test_a_real_connection_that_goes_wrong(answer: Answer, said: str) -> None:
    with RawServer({"/x": answer}, tls=True) as server:
        one = served(server)
        assert said in await refusal(one)
        server.answers["/x"] = ok(b"[]")
        assert await one.ask("GET", "/x") == b"[]"
        await one.aclose()


async def test_a_server_whose_authority_is_not_trusted_or_that_is_gone() -> None:
    with RawServer({"/x": ok(b"[]")}, tls=True) as server:
        assert "certificate verify failed" in await refusal(served(server, ca_file=None))
        one = served(server)
    assert "onnect" in await refusal(one)


@pytest.mark.slow
async def test_faults_for_a_long_time_leave_nothing_behind() -> None:
    with RawServer({}, tls=True) as server:
        one = served(server)

        async def rounds(count: int) -> tuple[int, int, int]:
            for answer, _ in [*FAULTS.values()][2:] * count:
                server.answers["/x"] = answer
                await refusal(one)
            server.requests.clear()
            replies.reset()
            gc.collect()
            return len(gc.get_objects()), len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

        objects, tasks, files = await rounds(3)
        more = await rounds(10)
        assert more[0] - objects < 1000
        assert more[1] <= tasks + 4
        assert more[2] <= files + 4
        await one.aclose()


WRONG = {  # case: (what is said, settings)
    "no address": ("must be an http", {"url": "archive"}),
    "a file": ("must be an http", {"url": "file:///etc/passwd"}),
    "a query": ("must be an http", {"url": "http://archive.lab.example/?a=b"}),
    "a port that is none": ("accepted: https://HOST/PATH", {"url": "http://archive.lab.example:http/"}),
    "a user in the address": ("without user name", {"url": "https://me:pw@h"}),
}


@pytest.mark.parametrize(("want", "settings"), WRONG.values(), ids=WRONG)
def test_wrong_settings(want: str, settings: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, ValueError), match=want) as caught:
        HttpClient(HttpSource(**settings))
    assert "pw" not in str(caught.value)


def test_a_ca_file_adds_to_the_systems() -> None:
    """A site with one self-signed host need not give up all the others."""
    system = verification(ca_file=None, insecure=False).cert_store_stats()["x509"]
    assert verification(ca_file=CERTIFICATE, insecure=False).cert_store_stats()["x509"] == system + 1


def test_only_insecure_switches_the_check_off() -> None:
    for ca_file, mode in ((None, ssl.CERT_NONE), (CERTIFICATE, ssl.CERT_REQUIRED)):
        context = verification(ca_file=ca_file, insecure=ca_file is None)
        assert (context.verify_mode, context.check_hostname) == (mode, ca_file is not None)


@pytest.mark.parametrize("text", [None, "no certificate"], ids=["no such file", "no certificate in it"])
def test_a_bad_file_is_named(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=f"ca_file {file}: .*; accepted: a PEM file"):
        verification(ca_file=file, insecure=False)


KINDS = {"opensearch": OpenSearchSource, "prometheus": PrometheusSource}
ADDRESSES = {  # case: (kind, as written, as asked)
    "an archive without a path": ("opensearch", "https://a", "https://a/opensearch"),
    "an archive with a path": ("opensearch", "https://a/opensearch/", "https://a/opensearch"),
    "OpenSearch itself": ("opensearch", "http://a:9200/", "http://a:9200"),
    "Prometheus": ("prometheus", "http://a:9090/", "http://a:9090"),
}


@pytest.mark.parametrize(("kind", "url", "asked"), ADDRESSES.values(), ids=ADDRESSES)
async def test_a_server_is_asked_as_it_is_configured(kind: str, url: str, asked: str) -> None:
    written = {"kind": kind, "url": url, "username": "me", "password_file": "secret", "insecure": True}
    written |= {"presets": ["smokeping"]} if kind == "prometheus" else {}
    [settings] = Settings.load(overrides={"network.sources": [written]}).network.sources
    one: Any = source_of(settings, name="x")
    assert (type(one), one.name, one.client.url, one.client.server) == (KINDS[kind], "x", asked, settings)
    server = HttpSource(url, username="me", password_file=Path("secret"), insecure=True)
    assert server == HttpSource(**{name: getattr(settings, name) for name in HttpSource.__struct_fields__})
    await one.aclose()


async def test_names_of_several(tmp_path: Path) -> None:
    archive = {"kind": "opensearch", "url": "https://a"}
    mesh = {"kind": "file", "path": str(tmp_path / "mesh.yaml")}
    sources = [mesh, archive, {"kind": "maddash", "url": "https://m"}, archive]
    given = {"kubeconfig": kubeconfig(tmp_path, "http://127.0.0.1:1"), "network.sources": sources}
    async with live(Settings.load(overrides=given)) as service:
        status = service.views.network().status
    assert status
    assert [source.name for source in status.sources] == ["file", "opensearch", "maddash", "opensearch-2"]
