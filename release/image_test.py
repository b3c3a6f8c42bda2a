"""`make image-test`: build the image and run it as a pod would: read-only, as its own user, without capabilities.

Why not `buildah run`: it has no read-only root. unshare gives each program mounts of its own, in which the image's
files cannot be written; nothing but examples/ and what a program reads of /proc and /dev comes from this machine.
"""

import json
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socket import create_server
from typing import Any

from release.build import ROOT, commit_time_s
from release.errors import ReleaseError
from release.image import ImageBuilder, install_packages

_LIMIT_S = 60.0
_INSIDE = """
mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount --bind "$2" "$1/mnt"
image=$1 user=$3; shift 3
exec setpriv --no-new-privs chroot --userspec="$user" "$image" env -i "$@"
"""
_FINDS_IPERF3 = "from probe.burst import BurstRunner; print(BurstRunner('127.0.0.1').said())"
_IS_READ_ONLY = (
    "import os, pathlib\ntry: pathlib.Path('/tmp/x').touch()\nexcept OSError as e: print(e.errno, os.getuid())"
)


class Image:
    """The files of an image and how it says that it is to be run."""

    def __init__(self, files: Path, config: dict[str, Any]) -> None:
        self._files, self._config = files, config

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs `words` in the image; its process becomes theirs, so signals reach it."""
        user = self._config["User"]
        script = ["unshare", "--mount", "sh", "-euc", _INSIDE, "sh", str(self._files), str(ROOT / "examples")]
        return [*script, user, *self._config["Env"], *words]

    def check(self, expected: str, *words: str) -> None:
        """Run a program that ends, and look for what it must say."""
        done = subprocess.run(self.command(words), capture_output=True, text=True, timeout=_LIMIT_S, check=False)  # noqa: S603
        if done.returncode != 0 or expected not in done.stdout:
            raise ReleaseError(f"{words}: {done.returncode}, no {expected!r} in {done.stdout}{done.stderr}")
        _say(f"{' '.join(words)!r}: {expected}")

    @contextmanager
    def running(self, *words: str) -> Iterator[Iterator[str]]:
        """What a program says line by line; it is told to end, and must do so with exit code 0."""
        program = subprocess.Popen(self.command(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603
        try:
            yield iter(program.stdout or ())
            program.send_signal(signal.SIGTERM)
            rest, _ = program.communicate(timeout=_LIMIT_S)
            if program.returncode != 0:
                raise ReleaseError(f"{words}: {program.returncode} after SIGTERM: {rest}")
        finally:
            program.kill()

    def serve(self) -> None:
        """The image's own command answers with the demo's nodes."""
        with create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        own = [*self._config["Entrypoint"], *self._config["Cmd"]]
        started_s = time.monotonic()
        with self.running(*own, "--port", str(port), "--snapshot", "/mnt/snapshot/paper-testbed.json") as log:
            next((line for line in log if f"port: http://127.0.0.1:{port}" in line), None)
            seconds = time.monotonic() - started_s
            healthy = _answer(f"http://127.0.0.1:{port}/healthz")
            body = (ROOT / "examples/requests/filter-case1.json").read_bytes()
            answer = json.loads(_answer(f"http://127.0.0.1:{port}/filter", body))
            if not answer["NodeNames"]:
                raise ReleaseError(f"serve: /filter answered {answer}")
        _say(f"serve: after {seconds:.1f} s /healthz says {healthy}; /filter: {', '.join(answer['NodeNames'])}")

    def start_agent(self) -> None:
        """The probe's agent starts, tries to report to nobody and ends when asked."""
        options = ["--url", "https://127.0.0.1:9", "--node", "n1", "--address", "127.0.0.1", "--port", "0"]
        with self.running("netgang-probe", *options, "--token-file", "/etc/debian_version") as log:
            line, tried = next(log, ""), next(log, "")
            if "did not take the report" not in tried:
                raise ReleaseError(f"netgang-probe: {line}{tried}")
        _say(f"netgang-probe: {line.strip()}")


def main() -> int:
    """Exit code 0: built and run; 1: not, and why is on standard error."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    started_s = time.monotonic()
    try:
        install_packages()
        builder = ImageBuilder(ROOT, version)
        builder.build(epoch_s=commit_time_s(ROOT), fresh_base=False)
        _say(f"built in {time.monotonic() - started_s:.0f} s")
        image = Image(*builder.mount())
        image.check("30 65532", "python", "-c", _IS_READ_ONLY)  # EROFS, in a directory that all may write to
        image.check(f"netgang {version}", "netgang", "--version")
        image.check('"admitted"', "netgang", "plan", "/mnt/snapshot/paper-testbed.json", "--json")
        image.check("iperf 3.", "iperf3", "--version")
        image.check("{'iperf3': True}", "python", "-c", _FINDS_IPERF3)
        image.serve()
        image.start_agent()
        builder.remove()
    except ReleaseError as error:
        sys.stderr.write(f"image-test: {error}\n")
        return 1
    _say(f"passed after {time.monotonic() - started_s:.0f} s")
    return 0


def _answer(url: str, body: bytes | None = None) -> str:
    """What a page says. ReleaseError: it does not."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_LIMIT_S) as response:  # noqa: S310
            return str(response.read().decode().strip())
    except OSError as error:
        raise ReleaseError(f"{url}: {error}") from error


def _say(line: str) -> None:
    sys.stdout.write(f"image-test: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
