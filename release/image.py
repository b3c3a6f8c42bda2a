"""The image without a container engine's daemon: Debian's packages make its base, buildah builds the Dockerfile on it.

Rule: what `make image-test` runs is built as what `make release` writes. Nothing of this machine gets into the image:
its certificates and pip's configuration are mounted in the Dockerfile's first stage, which is thrown away.
"""

import fcntl
import json
import os
import shutil
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

from lab.testbed.programs.build import user_cache
from release.errors import ReleaseError
from release.process import run

PACKAGES = ("buildah", "mmdebstrap")
"""Debian's packages that build the image; each has a program of its name."""
SUITE = "bookworm"
"""Debian's release whose Python is the Dockerfile's."""
_IN_BASE = "python3,python3-pip,python3-venv,ca-certificates"
_LIKE_PUBLIC = ('ln -s python3 "$1/usr/bin/python"', 'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED')
"""What the Dockerfile's public base has and Debian's Python has not."""
_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
_FOR_PIP = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout")
"""The options of pip that say how packages are reached; others would change what is built."""


def missing_packages() -> list[str]:
    """Those of `PACKAGES` that are not installed here."""
    return [name for name in PACKAGES if shutil.which(name) is None]


def install_packages() -> None:
    """Install with apt-get what is missing. ReleaseError that names it, where apt-get cannot."""
    if not (missing := missing_packages()):
        return
    install = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "-qq", "--no-install-recommends"]
    try:
        if os.geteuid() != 0:
            raise ReleaseError("only root may")
        run(["apt-get", "update", "-qq"])
        run([*install, *missing])
    except (OSError, ReleaseError) as error:
        names = " and ".join(missing)
        raise ReleaseError(f"the image needs Debian's {names}, which cannot be installed here: {error}") from error


class ImageBuilder:
    """buildah with a store of its own, outside the tree: `~/.cache/netgang/image/VERSION`. Layers are built anew."""

    def __init__(self, root: Path, version: str) -> None:
        self.root, self.name = root, f"netgang:{version}"
        self._place = user_cache() / "image" / version
        self._base = f"netgang-base:{SUITE}"
        self._place.mkdir(parents=True, exist_ok=True)
        self._lock = (self._place / "lock").open("w")  # until the process ends: a second build waits
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def build(self, *, epoch_s: int, fresh_base: bool) -> None:
        """Build the Dockerfile in three minutes, and its base in three more where there is none or it is to be new."""
        archive = self._place / "base" / "base.tar"
        archive.parent.mkdir(exist_ok=True)
        if fresh_base or not archive.exists():
            hooks = [f"--customize-hook={hook}" for hook in _LIKE_PUBLIC]
            part = archive.with_name("part.tar")
            run(["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_IN_BASE}", *hooks, SUITE, str(part)])
            part.replace(archive)
        (archive.parent / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")
        self.remove()
        stamp = ["--pull-never", "--timestamp", str(epoch_s)]
        self._buildah("build", *stamp, "--tag", self._base, str(archive.parent))
        volumes = [f"--volume={path}:{target}:ro" for target, path in self._package_access().items()]
        commit = run(["git", "rev-parse", "HEAD"], self.root).strip()
        given = ["--build-arg", f"BASE=localhost/{self._base}", "--build-arg", f"SOURCE_COMMIT={commit}"]
        self._buildah("build", *stamp, *volumes, *given, "--tag", self.name, str(self.root))

    def write(self, target: Path) -> None:
        """The image as an OCI archive."""
        self._buildah("push", self.name, f"oci-archive:{target}:{self.name}")

    def mount(self) -> tuple[Path, dict[str, Any]]:
        """The files of the image, and its configuration (User, Env, Entrypoint, Cmd)."""
        container = self._buildah("from", "--pull-never", self.name).strip()
        document = json.loads(self._buildah("inspect", "--type", "image", self.name))
        return Path(self._buildah("mount", container).strip()), document["OCIv1"]["config"]

    def remove(self) -> None:
        """Forget images and containers; the base's archive stays for the next build."""
        if (self._place / "store").exists():
            self._buildah("rm", "--all")
            self._buildah("rmi", "--all", "--force")

    def _package_access(self) -> dict[str, Path]:
        """File in the build → file that lets pip and uv reach packages as this machine's do."""
        listed = run([sys.executable, "-m", "pip", "config", "list"]).splitlines()
        options = {key.rpartition(".")[2]: literal_eval(value) for key, _, value in (s.partition("=") for s in listed)}
        lines = [f"{key} = {value}" for key, value in options.items() if key in _FOR_PIP]
        certificates = Path(options.get("cert") or os.environ.get("SSL_CERT_FILE") or _CERTIFICATES)
        pip, uv = self._place / "pip.conf", self._place / "uv.toml"
        pip.write_text("\n".join(["[global]", f"cert = {_CERTIFICATES}", *lines, ""]))
        uv.write_text("system-certs = true\n")
        own = [path for path in (Path.home() / ".config/uv/uv.toml", Path("/etc/uv/uv.toml")) if path.exists()]
        files = {"/etc/pip.conf": pip, "/etc/uv/uv.toml": (*own, uv)[0]}
        return files | ({_CERTIFICATES: certificates} if certificates.exists() else {})

    def _buildah(self, *words: str) -> str:
        store = ["--storage-driver", "vfs", "--root", str(self._place / "store"), "--runroot", str(self._place / "run")]
        return run(["buildah", *store, *words], more={"BUILDAH_ISOLATION": "chroot"})
