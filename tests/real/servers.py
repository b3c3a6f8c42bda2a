"""A real OpenSearch node (from published Java artifacts) and a real Prometheus (Debian's, or the one in PATH).

`make archives` (and `make e2e` before its tests) fetches them once into the cache: a test never fetches anything.
"""

import shutil
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic

import httpx

from lab.testbed.processes.network import free_ports
from lab.testbed.programs import archives
from tests.authority import Authority

_OPENSEARCH = Path(__file__).parents[1] / "fixtures" / "opensearch"
START_S = 150.0


def missing_opensearch() -> str | None:
    if shutil.which("javac") is None:
        return "no javac: install a Java 17 development kit to run OpenSearch"
    return archives.why_missing("opensearch")


@contextmanager
def opensearch(place: Path) -> Iterator[tuple[httpx.Client, Path]]:
    """A node secured as perfSONAR's installer does it: its administrator, and the file of its authority."""
    fetched, classes, config = archives.find("opensearch"), place / "classes", place / "config"
    assert fetched is not None
    libraries = f"{fetched}/*:{fetched}/security/*"
    subprocess.run(["javac", "-cp", libraries, "-d", str(classes), str(_OPENSEARCH / "OneNode.java")], check=True)
    for files in (fetched / "security" / "config", _OPENSEARCH / "security"):
        shutil.copytree(files, config / "opensearch-security", dirs_exist_ok=True)
    who = config / "opensearch-security" / "config.yml"
    who.write_text(who.read_text().replace("anonymous_auth_enabled: false", "anonymous_auth_enabled: true"))
    authority = Authority.made(config, "ca")
    authority.server().into(config)
    [port] = free_ports(1)
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dlog4j2.disable.jmx=true"]
    command = ["java", *options, "-cp", f"{classes}:{libraries}", "OneNode", str(place), str(port)]
    trust = ssl.create_default_context(cafile=str(authority.cert))
    admin = httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trust, auth=("admin", "of-tests"), timeout=60.0)
    with admin, _running(place, command, f"{admin.base_url}/_cluster/health?wait_for_status=yellow", trust):
        yield admin, authority.cert


def missing_prometheus() -> str | None:
    return None if _prometheus() else archives.why_missing("prometheus")


def _prometheus() -> str | None:
    fetched = archives.find("prometheus")
    return str(fetched / "usr" / "bin" / "prometheus") if fetched else shutil.which("prometheus")


@contextmanager
def scraped(page: Callable[[], str], place: Path, *, jobs: Callable[[str], str] | None = None) -> Iterator[str]:
    """Run a Prometheus that scrapes this page every second, as its labels and times are; give its base address.

    `jobs`: from the exporter's HOST:PORT the `scrape_configs` to use.
    """

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page().encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as exporter:
        thread = threading.Thread(target=exporter.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        at = f"127.0.0.1:{exporter.server_port}"
        with prometheus(place, at, jobs=jobs and jobs(at)) as url:
            yield url
        exporter.shutdown()
        thread.join()


@contextmanager
def prometheus(place: Path, exporter: str, *, jobs: str | None = None) -> Iterator[str]:
    program = _prometheus()
    assert program is not None
    config = place / "prometheus.yml"
    one = f"scrape_configs: [{{job_name: mesh, honor_labels: true, static_configs: [{{targets: ['{exporter}']}}]}}]"
    config.write_text(f"global: {{scrape_interval: 1s}}\n{jobs or one}\n")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    options = [f"--config.file={config}", f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={address}"]
    with _running(place, [program, *options], f"http://{address}/-/ready"):
        yield f"http://{address}"


@contextmanager
def _running(place: Path, command: Sequence[str], ready: str, trust: ssl.SSLContext | bool = True) -> Iterator[None]:
    """The program, once it answers there; its data are thrown away."""
    log = place / "out"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
    assert process.stdin is not None

    def answers() -> bool:
        try:
            return httpx.get(ready, timeout=5.0, trust_env=False, verify=trust).is_success
        except httpx.TransportError:
            return False

    ends_s = monotonic() + START_S
    try:
        while not answers():
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.25)
            ended = process.returncode is not None or monotonic() > ends_s
            assert not ended, f"{command[0]} does not answer ({process.returncode}): {log.read_text()[-2000:]}"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
