"""A real OpenSearch node on loopback, from published Java artifacts.

`make archives` (and `make e2e` before its tests) fetches them once into the cache: a test never fetches anything.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from testbed.programs import archives

SOURCE = Path(__file__).parents[1] / "fixtures" / "opensearch" / "OneNode.java"
START_S = 150.0


def missing() -> str | None:
    """Why no node can be run here; `None`: one can."""
    if shutil.which("javac") is None:
        return "no javac: install a Java 17 development kit to run OpenSearch"
    return archives.why_missing("opensearch")


@contextmanager
def opensearch(place: Path) -> Iterator[str]:
    """Run a node with its data in `place`, and give its base address; it has ended when the block has."""
    classes = place / "classes"
    libraries = f"{archives.find('opensearch')}/*"
    subprocess.run(["javac", "-cp", libraries, "-d", str(classes), str(SOURCE)], check=True)
    (place / "config").mkdir()
    port = _free_port()
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.disable.jmx=true"]
    command = ["java", *options, "-cp", f"{classes}:{libraries}", "OneNode", str(place), str(port)]
    with (place / "out").open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(url, process, place / "out")
        yield url
    finally:
        process.kill()  # its data are thrown away
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    transport = httpx.HTTPTransport(retries=0)
    with httpx.Client(transport=transport, timeout=5.0) as client:
        for _ in range(int(START_S / 0.5)):
            try:
                if client.get(f"{url}/_cluster/health", params={"wait_for_status": "yellow"}).is_success:
                    return
            except httpx.TransportError:
                pass
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"OpenSearch ended with {process.returncode}: {log.read_text()[-2000:]}")
    raise AssertionError(f"OpenSearch did not start within {START_S:g} s: {log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
