"""The clients of the API server: static tokens, kubeconfigs, and the key that signs service account tokens.

Why: netgang has to be tested with exactly the rights that manifests/ gives it, and API tokens of real service
accounts need running controllers.
Rule: a token may belong to the user name of a service account (`system:serviceaccount:NAMESPACE:NAME`), so that
role bindings to that account apply to it; nothing but `admin` has rights of its own.
"""

import base64
import csv
import io
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec
import yaml

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_P256_OID = bytes.fromhex("06082a8648ce3d030107")


class User(msgspec.Struct, frozen=True):
    """An identity of the API server: kubeconfig `name`, Kubernetes user name and groups, bearer token."""

    name: str
    username: str
    groups: tuple[str, ...]
    token: str


def user(name: str, username: str, *groups: str) -> User:
    """A user with a fresh random token."""
    return User(name=name, username=username, groups=groups, token=secrets.token_urlsafe(24))


def service_account(namespace: str, name: str) -> User:
    """The identity of a service account; its role bindings apply, no controller is needed."""
    return user(
        name,
        f"system:serviceaccount:{namespace}:{name}",
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    )


def token_file(users: Iterable[User]) -> str:
    r"""Text of the API server's `--token-auth-file`: token, user name, uid, quoted groups.

    >>> token_file([User(name="a", username="u", groups=("g", "h"), token="t")])
    't,u,u,"g,h"\n'
    """
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for one in users:
        rows.writerow([one.token, one.username, one.username, ",".join(one.groups)])
    return text.getvalue()


def kubeconfig(server: str, account: User, *, certificate_authority: Path) -> str:
    """A kubeconfig with one context; the server's certificate is checked against `certificate_authority`."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "testbed", "cluster": {"server": server, "certificate-authority": str(certificate_authority)}}
        ],
        "users": [{"name": account.name, "user": {"token": account.token}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": account.name}}],
        "current-context": "testbed",
    }
    return yaml.safe_dump(document, sort_keys=False)


def signing_key() -> str:
    """A fresh P-256 private key in PEM (RFC 5915); the public half is left out, Go computes it.

    Written by hand because the standard library makes no keys and nothing else here needs a crypto package.
    """
    scalar = (secrets.randbelow(_P256_ORDER - 1) + 1).to_bytes(32, "big")
    content = b"\x02\x01\x01" + b"\x04\x20" + scalar + b"\xa0" + bytes([len(_P256_OID)]) + _P256_OID
    encoded = base64.b64encode(b"\x30" + bytes([len(content)]) + content).decode()
    lines = [encoded[i : i + 64] for i in range(0, len(encoded), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])
