"""A real Prometheus on loopback: Debian's package unpacked into the cache, or else the one in PATH.

`make archives` (and `make e2e` before its tests) fetches it once into the cache: a test never fetches anything.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from testbed.programs import archives

START_S = 60.0


def missing() -> str | None:
    """Why there is none here; `None`: there is one."""
    return None if _program() else archives.why_missing("prometheus")


def _program() -> str | None:
    fetched = archives.find("prometheus")
    return str(fetched / "usr" / "bin" / "prometheus") if fetched else shutil.which("prometheus")


@contextmanager
def prometheus(place: Path, exporter: str) -> Iterator[str]:
    """Run one that scrapes `exporter` (HOST:PORT) every second, and give its base address."""
    program = _program()
    assert program is not None
    config = place / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: mesh, static_configs: [{{targets: ['{exporter}']}}]}}]\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    options = [f"--config.file={config}", f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={address}"]
    with (place / "out").open("wb") as out:
        process = subprocess.Popen([program, *options], stdout=out, stderr=subprocess.STDOUT)
    try:
        _wait_until_ready(f"http://{address}/-/ready", process, place / "out")
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(int(START_S / 0.25)):
        try:
            if httpx.get(url, timeout=5.0, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        try:
            process.wait(0.25)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"Prometheus did not start: {log.read_text()[-2000:]}")
