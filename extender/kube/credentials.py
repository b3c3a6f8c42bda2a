"""Where the API server is, and the credentials for it.

Rule: the `kubernetes` package reads kubeconfigs, and nothing else is used of it; tokens rotate (in clouds every 15
minutes) and are renewed here: files are read again every minute, exec plugins run again before their token expires or
when it is refused. What cannot be used is a ConfigError that names file and field.
"""

import asyncio
import logging
import math
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec.structs import replace
from pyreqwest.client import Client, ClientBuilder

from extender.errors import ConfigError
from extender.ports import Clock

_log = logging.getLogger(__name__)

_AFTER_FAILURE_S = 10.0


class Token(msgspec.Struct, frozen=True):
    """An Authorization header and for how many seconds it is good. "" means: send no header."""

    header: str
    lifetime_s: float = math.inf


class Authorization:
    """The current Authorization header; renewed in a thread, by one caller at a time."""

    def __init__(self, read: Callable[[], Token], *, clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._renewing = asyncio.Lock()
        self._keep(read())

    async def header(self) -> str:
        """The header to send now; waits only while a token is being renewed."""
        if self._clock.monotonic_s() >= self._renew_at_s:
            await self.renewed(self._header)
        return self._header

    async def renewed(self, old: str) -> bool:
        """Renew a header that ends, or was answered with 401, unless another caller was faster; true: there is one."""
        async with self._renewing:
            if self._header == old:
                try:
                    self._keep(await asyncio.to_thread(self._read))
                except ConfigError as error:
                    # The old token may still be good: go on with it; the API server has the last word.
                    _log.warning("cannot renew the token: %s", error)
                    self._renew_at_s = self._clock.monotonic_s() + _AFTER_FAILURE_S
        return self._header != old

    def _keep(self, token: Token) -> None:
        self._header = token.header
        self._renew_at_s = self._clock.monotonic_s() + token.lifetime_s


class Tls(msgspec.Struct, frozen=True):
    """Who signs the server's certificate, and the client's own certificate. By default whom the machine trusts."""

    authority: Path | None = None
    identity: bytes = b""  # The client's certificate and its key, PEM
    verified: bool = True
    found_at: tuple[str, str, int] | None = None
    """The URL's host, an address and a port, where the host is only the name that the certificate must have"""

    def built(self, builder: ClientBuilder) -> Client:
        """The client with this. Errors: OSError, ValueError: a certificate or key cannot be used."""
        if self.identity:
            builder = builder.identity_pem(self.identity)
        if self.found_at is not None:
            builder = builder.resolve(*self.found_at)
        builder = builder.danger_accept_invalid_certs(not self.verified)
        if self.authority is None:
            return builder.build()
        ssl.create_default_context(cafile=self.authority)  # pyreqwest takes a file without certificates
        # For as long the machine trusts this authority alone: pyreqwest has no other way to trust only one
        before = {name: os.environ.pop(name, None) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
        os.environ["SSL_CERT_FILE"] = str(self.authority)
        try:
            return builder.build()
        finally:
            del os.environ["SSL_CERT_FILE"]
            os.environ.update({name: value for name, value in before.items() if value is not None})


class ApiServer(msgspec.Struct, frozen=True):
    """How to reach one API server."""

    url: str
    authorization: Authorization
    tls: Tls = Tls()
    proxy: str | None = None


def load(
    kubeconfig: Path | None,
    *,
    clock: Clock,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    service_account: Path = Path("/var/run/secrets/kubernetes.io/serviceaccount"),
) -> ApiServer:
    """Credentials of `kubeconfig`, else of our pod, else $KUBECONFIG or ~/.kube/config. Blocks. Errors: ConfigError."""
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if kubeconfig is None and host:
        url = f"https://{f'[{host}]' if ':' in host else host}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}"
        token = partial(_token_from_file, service_account / "token")
        tls = _tls(service_account / "ca.crt", source=str(service_account))
        return ApiServer(url, Authorization(token, clock=clock), tls)
    path = kubeconfig or Path(environment.get("KUBECONFIG") or Path.home() / ".kube" / "config")
    if kubeconfig is None and not path.is_file():
        raise ConfigError(f"kubeconfig: not in a pod, and {path} does not exist; name a kubeconfig file")
    return _from_kubeconfig(path, context=context, clock=clock)


def _from_kubeconfig(path: Path, *, context: str | None, clock: Clock) -> ApiServer:
    # Imported here: the package costs 0.7 s and 67 MB, which pods, and commands without a cluster, need not pay.
    from kubernetes.client import Configuration
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.kube_config import KubeConfigLoader

    document = document_of(path)
    user = _user(document, path=path, context=context)
    read = _token_reader(user, path=path, clock=clock)
    # The token is ours to read and renew: the package must not run plugins and swallow their errors.
    for field in ("exec", "tokenFile", "auth-provider"):
        user.pop(field, None)
    config = Configuration(proxy="")  # "" keeps the package from taking a proxy from the environment
    try:
        base = str(path.parent.absolute())
        loader = KubeConfigLoader(document, active_context=context, config_base_path=base)  # type: ignore[no-untyped-call]
        loader.load_and_set(config)  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, ValueError) as error:
        raise ConfigError(f"kubeconfig {path}: {error}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise ConfigError(f"kubeconfig {path}: clusters, contexts or users are not as kubectl writes them") from error
    url = str(config.host).rstrip("/")
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"kubeconfig {path}: clusters[].cluster.server must be an https:// or http:// URL")
    tls = Tls()
    if url.startswith("https://"):
        authority = Path(config.ssl_ca_cert) if config.ssl_ca_cert else None
        files = [Path(file) for file in (config.cert_file, config.key_file) if config.cert_file and file]
        tls = _tls(authority, *files, verified=bool(config.verify_ssl), source=f"kubeconfig {path}")
    if config.tls_server_name:
        if config.proxy:
            raise ConfigError(f"kubeconfig {path}: tls-server-name and proxy-url are not supported together")
        name, parts = config.tls_server_name, urlsplit(url)  # the name that the certificate has takes the host's place
        port = parts.port or 443
        try:
            address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)[0][4][0]
        except OSError as error:
            raise ConfigError(f"kubeconfig {path}: clusters[].cluster.server: {parts.hostname}: {error}") from error
        url = urlunsplit(parts._replace(netloc=f"{name}:{port}"))
        tls = replace(tls, found_at=(name, str(address), port))
    return ApiServer(url, Authorization(read, clock=clock), tls, config.proxy or None)


def document_of(path: Path) -> dict[str, Any]:
    """A kubeconfig as it is written. Blocks. Errors: ConfigError."""
    import yaml  # Not for what only has an address

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"kubeconfig {path}: cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"kubeconfig {path}: not YAML: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path}: must be a mapping with clusters, contexts and users")
    return document


def _user(document: Mapping[str, Any], *, path: Path, context: str | None) -> dict[str, Any]:
    """The `user` mapping of the chosen context, not a copy; {} when there is none."""
    chosen = context or document.get("current-context")
    if not chosen:
        raise ConfigError(f"kubeconfig {path}: current-context is empty and no context was named")
    entry = _named(document, "contexts", chosen, path=path).get("context")
    name = entry.get("user") if isinstance(entry, dict) else None
    user = _named(document, "users", name, path=path).get("user") if name else None
    return user if isinstance(user, dict) else {}


def _named(document: Mapping[str, Any], field: str, name: str, *, path: Path) -> Mapping[str, Any]:
    listed = document.get(field)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            return entry
    raise ConfigError(f"kubeconfig {path}: {field} has no entry named {name}")


def _token_reader(user: Mapping[str, Any], *, path: Path, clock: Clock) -> Callable[[], Token]:
    """How to read this user's token, in kubectl's order: token file, token, plugin."""
    if "auth-provider" in user:
        raise ConfigError(f"kubeconfig {path}: users[].user.auth-provider is not supported; use exec or tokenFile")
    if user.get("tokenFile"):
        return partial(_token_from_file, path.parent / str(user["tokenFile"]))
    if user.get("token"):
        return partial(Token, f"Bearer {user['token']}")
    if plugin := user.get("exec"):
        if not isinstance(plugin, dict):
            raise ConfigError(f"kubeconfig {path}: users[].user.exec must be a mapping with apiVersion and command")
        return partial(_token_from_plugin, plugin, path=path, clock=clock)
    return partial(Token, "")  # a client certificate, or none


def _token_from_file(path: Path) -> Token:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"token file {path}: cannot be read: {error}") from error
    if not text:
        raise ConfigError(f"token file {path}: is empty")
    return Token(f"Bearer {text}", 60.0)  # the kubelet refreshes a mounted token long before the old one ends


def _token_from_plugin(plugin: Mapping[str, Any], *, path: Path, clock: Clock) -> Token:
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.config.exec_provider import ExecProvider
    from kubernetes.config.kube_config import ConfigNode

    where = f"kubeconfig {path}: users[].user.exec ({plugin.get('command', 'no command')})"
    try:
        node = ConfigNode("exec", plugin)  # type: ignore[no-untyped-call]
        status = ExecProvider(node, str(path.parent.absolute())).run()  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, TypeError, KeyError) as error:
        raise ConfigError(f"{where}: {error}") from error
    token = status.get("token") if isinstance(status, dict) else None
    if not token:
        raise ConfigError(f"{where}: gave no token; plugins that give a client certificate are not supported")
    until = status.get("expirationTimestamp")
    if not until:
        return Token(f"Bearer {token}")
    try:
        ends_s = datetime.fromisoformat(until).timestamp()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: expirationTimestamp {until!r} is not RFC 3339") from error
    return Token(f"Bearer {token}", max(_AFTER_FAILURE_S, ends_s - 60.0 - clock.now_s()))


def _tls(authority: Path | None, *identity: Path, verified: bool = True, source: str) -> Tls:
    try:
        tls = Tls(authority, b"\n".join(file.read_bytes() for file in identity), verified=verified)
        tls.built(ClientBuilder())
    except (OSError, ValueError) as error:  # the latter: of pyreqwest
        raise ConfigError(f"{source}: certificate or key cannot be used: {error}") from error
    return tls
