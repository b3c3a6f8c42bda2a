"""A real Prometheus on loopback: the one in PATH, or Debian's package unpacked into the cache.

A test never fetches anything; where there is none:

    apt-get install prometheus, or: apt-get download prometheus && dpkg -x prometheus_*.deb $CACHE/prometheus

where $CACHE is $XDG_CACHE_HOME or ~/.cache, with `netgang` behind it.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

START_S = 60.0


def binary() -> str | None:
    """Path of the program; `None`: there is none."""
    base = os.environ.get("XDG_CACHE_HOME")
    cached = (Path(base) if base else Path.home() / ".cache") / "netgang" / "prometheus" / "usr" / "bin" / "prometheus"
    return shutil.which("prometheus") or (str(cached) if cached.exists() else None)


@contextmanager
def prometheus(place: Path, exporter: str) -> Iterator[str]:
    """Run one that scrapes `exporter` (HOST:PORT) every second, and give its base address."""
    program = binary()
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
