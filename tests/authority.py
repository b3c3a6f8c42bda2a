"""Certificate authorities for tests: real files, made by the openssl command in some milliseconds each.

Why the command: the standard library makes no certificates, and nothing else here needs a crypto package. Python's own
Debian images and every Linux desktop have it; without it these tests are skipped aloud, and fail with CI=true.
"""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.liveness import LIVENESS_S

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Pair(msgspec.Struct, frozen=True):
    cert: Path
    key: Path

    def into(self, directory: Path) -> "Pair":
        """Copies under other names; a file that is there is replaced in one step, as people should do it."""
        copies = Pair(directory / "tls.crt", directory / "tls.key")
        for old, new in ((self.cert, copies.cert), (self.key, copies.key)):
            beside = new.with_suffix(".new")
            shutil.copy(old, beside)
            beside.replace(new)
        return copies


class Authority(Pair, frozen=True):
    name: str

    @classmethod
    def made(cls, directory: Path, name: str, *, days: int = 30) -> "Authority":
        """A new authority; negative `days`: it has expired."""
        made = cls(directory / f"{name}.crt", directory / f"{name}.key", name)
        key, cert = str(made.key), str(made.cert)
        more = ("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign", "-sha256", "-out", cert)
        openssl("req", "-x509", *_EC, "-keyout", key, "-days", str(max(days, 1)), *more)
        if days <= 0:  # which `req` does not accept
            openssl("x509", "-in", cert, "-signkey", key, "-days", str(days), "-out", cert)
        return made

    def issue(self, name: str, *, days: int = 30, san: str = "", usage: str = "clientAuth", file: str = "") -> Pair:
        """A certificate for common name `name`; negative `days`: one that has expired; `san` as openssl writes it."""
        stem = self.cert.parent / (file or f"{self.name}-{name}".replace(":", "-"))
        pair = Pair(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        request, extensions = stem.with_suffix(".csr"), stem.with_suffix(".ext")
        openssl("req", *_EC, "-keyout", str(pair.key), "-out", str(request), "-subj", f"/CN={name}")
        alternative = [f"subjectAltName={san}"] if san else []
        extensions.write_text("\n".join(["basicConstraints=CA:FALSE", f"extendedKeyUsage={usage}", *alternative]))
        openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.cert), "-CAkey", str(self.key)),
            *("-days", str(days), "-sha256", "-extfile", str(extensions), "-out", str(pair.cert)),
        )
        return pair

    def server(self, name: str = "netgang", *, days: int = 30, file: str = "") -> Pair:
        return self.issue(name, days=days, san="DNS:localhost,IP:127.0.0.1", usage="serverAuth", file=file)


def openssl(*arguments: str) -> str:
    program = shutil.which("openssl")
    if program is None:
        reason = "no openssl command: TLS is NOT tested"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
