"""The way to where a person said that netgang is.

Ways: an address (`--url`); the API server's port-forward to netgang's pod, which keeps a token to itself and reaches
the port on the pod's loopback; or the API server's proxy to netgang's Service, which needs a smaller right and can
carry no token. Rule: whatever contradicts itself is refused before anything is sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx

from client.connect.kubeconfig import chosen
from client.connect.said import DEFAULT, Said, Through, target
from client.connect.transports import Bearing, Forwarded, Proxied
from extender.errors import ConfigError
from extender.kube.credentials import load
from extender.network.sources.http import verification
from extender.runtime.clock import SystemClock

DEFAULT_URL: Final = "http://127.0.0.1:8888"
_OWN_MACHINE: Final = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Door:
    """An address, and how to get there; each `way` is for one client, which closes it."""

    url: str
    way: Callable[[], httpx.AsyncBaseTransport]


def door(said: Said, *, prefers_cluster: bool = False) -> Door:
    """The way that was meant. May run an exec plugin: call it before the loop runs. Errors: ConfigError."""
    if said.through is not None and said.through not in list(Through):
        raise ConfigError(f"--through {said.through!r}: accepted: {', '.join(Through)}")
    token = _token(said)
    if said.url is not None and said.in_cluster:
        raise ConfigError(f"--url and {said.in_cluster[0]}: name one of them")
    if said.url is None and (said.in_cluster or prefers_cluster):
        return _through_api_server(said, token)
    url = said.url or DEFAULT_URL
    _keep_secret(url, token)
    verify = verification(ca_file=said.ca_file, insecure=False)
    return Door(url, lambda: Bearing(httpx.AsyncHTTPTransport(verify=verify, trust_env=False), token=token))


def _through_api_server(said: Said, token: str) -> Door:
    where = target(said.service or DEFAULT)
    access = chosen(said.kubeconfig, said.context)
    server = load(access.file, clock=SystemClock(), context=access.context)
    _keep_secret(server.url, token)
    if said.through == Through.SERVICE_PROXY:
        if token:
            raise ConfigError(
                "--through service-proxy carries no token: the API server takes it away, and checks no certificate "
                "behind it; use --through port-forward"
            )
        return Door(where.url, lambda: Bearing(Proxied(server, where), token=""))
    if not where.port.isdigit():
        raise ConfigError(f"--service: port {where.port!r} is a name; --through port-forward needs its number")
    verify = verification(ca_file=said.ca_file, insecure=False)
    return Door(where.url, lambda: Bearing(Forwarded(server, where, verify=verify), token=token))


def _token(said: Said) -> str:
    if said.token_file is None:
        text, place = said.token.strip(), "NETGANG_TOKEN"
    else:
        try:
            text, place = said.token_file.read_text(encoding="utf-8").strip(), f"--token-file {said.token_file}"
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"--token-file {said.token_file}: cannot be read: {error}") from error
        if not text:
            raise ConfigError(f"{place}: is empty")
    if not (text.isascii() and text.isprintable()):
        raise ConfigError(f"{place}: no line of plain characters")
    return text


def _keep_secret(url: str, token: str) -> None:
    """Refuse to send a token where others can read it."""
    parts = urlsplit(url)
    if token and parts.scheme == "http" and parts.hostname not in _OWN_MACHINE:
        raise ConfigError(f"{url}: a token goes to https:// addresses or this machine only")
