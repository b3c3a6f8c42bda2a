"""The way to a running netgang: an address, or the API server, which leads to netgang's Service by its proxy.

Rule: the kubeconfig's credentials go to the API server alone (docs/developers/decisions.md). What
contradicts itself is refused before anything is sent; where no answer comes, `spoken` says what to change.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from extender.errors import ApiError, ConfigError, NetgangError
from extender.kube.credentials import ApiServer, Authorization, Token, document_of, load
from extender.ports import SystemClock

DEFAULT: Final = "netgang-system/netgang:8889"
_FORM: Final = re.compile(
    r"(?P<namespace>[a-z0-9-]{1,63})/(https:)?(?P<name>[a-z0-9-]{1,63})(:(?P<port>[a-z0-9-]{1,15}))?"
)


class Door(NamedTuple):
    """An address, as people read it, and how to get there."""

    url: str
    server: ApiServer
    prefix: str = ""  # Path of the Service's proxy; empty: it is the address itself
    plain: str = ""  # The same without TLS, to be asked if the Service speaks none; empty: never


def door(
    url: str | None = None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    service: str | None = None,
    *,
    prefers_cluster: bool = False,
) -> Door:
    """The way that the options, else NETGANG_URL, mean. May run a plugin: not on the loop. Errors: ConfigError."""
    options = {"--kubeconfig": kubeconfig, "--context": context, "--service": service}
    by_cluster = next((name for name, value in options.items() if value is not None), None)
    url = (os.environ.get("NETGANG_URL") or None) if url is None and by_cluster is None else url
    if url is not None and by_cluster is not None:
        raise ConfigError(f"--url and {by_cluster}: name one of them")
    if url is not None or not (by_cluster or prefers_cluster):
        url = url or "http://127.0.0.1:8888"
        if not url.startswith(("http://", "https://")) or "@" in url:
            raise ConfigError("--url: accepted: http://HOST:PORT or https://HOST:PORT, without user and password")
        return Door(url, ApiServer(url, Authorization(partial(Token, ""), clock=SystemClock())))
    prefix, access = proxied(service := service or DEFAULT), access_of(kubeconfig, context)
    server = load(access.file, clock=SystemClock(), context=access.context)
    return Door(f"{server.url}{prefix}", server, prefix, "" if "https:" in service else prefix.replace("/https:", "/"))


def proxied(service: str) -> str:
    """The path of services/proxy of NAMESPACE/[https:]NAME[:PORT], by TLS, as the chart installs it. ConfigError: none.

    >>> proxied("netgang-system/netgang")
    '/api/v1/namespaces/netgang-system/services/https:netgang:8889/proxy'
    """
    parts = _FORM.fullmatch(service)
    if parts is None:
        raise ConfigError(f"--service {service!r}: write NAMESPACE/NAME or NAMESPACE/NAME:PORT")
    name = f"https:{parts['name']}:{parts['port'] or '8889'}"
    return f"/api/v1/namespaces/{parts['namespace']}/services/{name}/proxy"


class Access(NamedTuple):
    """A file and a context of it; no file: the credentials of the pod we run in."""

    file: Path | None
    context: str | None
    namespace: str  # The context's own; "" if it names none


def access_of(kubeconfig: Path | None, context: str | None) -> Access:
    """What the options mean; without a file $KUBECONFIG, ~/.kube/config or the pod. Blocks. Errors: ConfigError.

    kubectl merges the files that KUBECONFIG lists; here the first one that holds the context is taken as a whole.
    """
    listed = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    files = [kubeconfig] if kubeconfig is not None else listed or [Path.home() / ".kube" / "config"]
    read = {file: _contexts(file) for file in files if kubeconfig is not None or file.is_file()}
    if not read and context is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Access(None, None, "")
    named = ", ".join(map(str, files))
    if not read:
        raise ConfigError(f"kubeconfig: {named} does not exist; name a file with --kubeconfig")
    wanted = context or next((current for current, _ in read.values() if current), "")
    for file, (_, contexts) in read.items():
        if wanted in contexts:
            return Access(file, wanted, contexts[wanted])
    if not wanted:
        raise ConfigError(f"kubeconfig {named}: current-context is empty; name one with --context")
    there = sorted({name for _, contexts in read.values() for name in contexts})
    raise ConfigError(f"kubeconfig {named}: no context {wanted!r}; there are {', '.join(there) or 'none'}")


def _contexts(file: Path) -> tuple[str, dict[str, str]]:
    # The current context, and the namespace of each
    document = document_of(file)
    listed, namespaces = document.get("contexts"), {}
    for item in listed if isinstance(listed, list) else ():
        if isinstance(item, dict) and item.get("name"):
            context = item.get("context")
            namespace = context.get("namespace") if isinstance(context, dict) else None
            namespaces[str(item["name"])] = str(namespace or "")
    return str(document.get("current-context") or ""), namespaces


_MEANINGS: Final[Mapping[str, str]] = {  # part of what the HTTP client says → what it means, and what to do
    "invalid peer certificate": "the certificate has ended, or is of another name or authority (trusted by "
    "SSL_CERT_FILE or a kubeconfig's certificate-authority)",
    "InvalidContentType": "that port speaks no TLS: write http://",
    "closed before message completed": "it hangs up: if that port speaks TLS write https://",
    "dns error": "no machine has that name",
    "no answer in time": "nothing answers: can you reach that address from here?",
}
_REFUSALS: Final[Mapping[int, str]] = {  # status of the API server → what to do
    401: "your credentials are not valid (any more): log in again, or name another --context",
    403: "an administrator lets you in: the chart's value `viewers`, or kubectl -n {place} create rolebinding NAME "
    "--role=netgang-service-proxy --user=YOU",
}
_NO_WAY: Final = "does netgang run there, with documentsFrom? Or kubectl -n {place} port-forward deploy/netgang 8889"


def spoken(door: Door, error: NetgangError) -> str:
    """Why no document came, and what to do about it."""
    if isinstance(error, ApiError):
        return f"{error}; {_REFUSALS.get(error.status, _NO_WAY).format(place=door.prefix.split('/')[4])}"
    why = str(error).partition(": ")[2]
    usual = "does the cluster's API server answer there?" if door.prefix else "does netgang run there?"
    return f"{door.url}: {next((text for part, text in _MEANINGS.items() if part in why), usual)} ({why})"
