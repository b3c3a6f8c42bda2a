"""Certificates that a controller makes for its own webhook, put where a kubelet would mount them.

Why: several controllers write their certificate into a Secret and wait until it appears as files, and in the test bed
there is no kubelet that would mount it.
"""

import base64
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from lab.testbed.api import Api
from lab.testbed.beside import beside
from lab.testbed.errors import ApiRefused

_FILES = ("tls.key", "ca.crt", "tls.crt")  # the last one is what controllers wait for
_LIMIT_S = 60.0


@asynccontextmanager
async def carried(api: Api, secret: str, *, namespace: str, to: Sequence[Path]) -> AsyncGenerator[None]:
    """While the block runs: as soon as the Secret holds a certificate, its files are in these directories, in order."""
    async with beside(_carry(api, secret, namespace, to)):
        yield


async def _carry(api: Api, secret: str, namespace: str, to: Sequence[Path]) -> None:
    async def made() -> dict[str, str]:
        try:
            found = await api.get("Secret", secret, namespace=namespace)
        except ApiRefused:
            return {}
        return dict(found.get("data") or {})

    what = f"the certificate in Secret {secret}"
    data = await api.until(made, lambda found: "tls.crt" in found, what=what, limit_s=_LIMIT_S)
    for directory in to:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            (directory / name).write_bytes(base64.b64decode(data[name]))
