"""The newcomer notices what is not as printed, and leaves nothing running."""

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.newcomer import walk as walking
from tests.newcomer.document import Walk
from tests.newcomer.terminal import Shell, Staying, Unanswered
from tests.newcomer.walk import Newcomer, NotAsPrinted, PortTaken

SERVES = f"{sys.executable} serve.py"
PROGRAM = """
import http.server, pathlib, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"<title>it</title>")
    def log_message(self, *_): pass
with http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page) as server:
    print("up", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("down")
"""


def document(tmp_path: Path, text: str) -> Walk:
    path = tmp_path / "page.md"
    path.write_text(text)
    return Walk(path)


def walk(tmp_path: Path, text: str) -> tuple[str, ...]:
    with Newcomer(root=tmp_path) as newcomer:
        return newcomer.walk(document(tmp_path, text))


def test_the_second_terminal_remembers(tmp_path: Path) -> None:
    text = "```sh\nexport ME=you  # a comment\n```\nThen\n```sh\necho $ME\n```\n```text\nyou\n```"
    assert walk(tmp_path, text) == ("export ME=you", "echo $ME")


WRONG = {  # what is wrong → (document, what is said)
    "another output": ("```sh\necho a\n```\n```text\nb\n```", "shows\nb\n--- printed\na"),
    "an output that is not shown": ("```sh\necho a\n```", r"shows\n\(nothing\)\n--- printed\na"),
    "a failure": ("```sh\necho a; false\n```\n```text\na\n```", "exit code 1:\na"),
    "a failure in the middle": ("```sh\nfalse\necho a\n```\n```text\na\n```", "`false` ended with exit code 1"),
    "a shell that ended": ("```sh\nexit 3\n```", "no end of `exit 3`"),
    "Ctrl-C for nobody": ("```text\n^C\n```", "nothing runs"),
}


@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_what_is_not_as_printed_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(NotAsPrinted, match=said) as found:
        walk(tmp_path, text)
    assert str(found.value).startswith("page.md:")


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A command that stays, in a document's words, and the port it answers on in place of netgang's."""
    (port,) = free_ports(1)
    command = f"{SERVES} {port}"
    monkeypatch.setattr(walking, "PORT", port)
    monkeypatch.setattr(walking, "STAYING", {command: 20.0})
    monkeypatch.setattr(walking, "_READING_S", 0.0)
    (tmp_path / "serve.py").write_text(PROGRAM)
    return command


def served(command: str, *, first: str = "up", last: str = "down") -> str:
    """A document about a command that stays, a page of its, and its end."""
    port = command.split()[-1]
    return (
        f"```sh\n{command}\n```\n```text\n{first}\n```\nOpen http://127.0.0.1:{port}/ then.\n```sh\necho a\n```\n"
        f"```text\na\n```\n```text\n^C\n{last}\n```"
    )


def test_a_command_stays_until_ctrl_c(tmp_path: Path, serving: str) -> None:
    assert walk(tmp_path, served(serving)) == (serving, "echo a")
    walking.check_port()


@pytest.mark.parametrize("wrong", [{"first": "ready"}, {"last": "gone"}], ids=["at first", "in the end"])
def test_what_it_prints_is_compared(
    tmp_path: Path, serving: str, monkeypatch: pytest.MonkeyPatch, wrong: Mapping[str, str]
) -> None:
    monkeypatch.setattr(walking, "STAYING", {serving: 1.5})
    with pytest.raises(NotAsPrinted, match="prints something else"):
        walk(tmp_path, served(serving, **wrong))
    walking.check_port()


def test_a_taken_port_is_not_used(tmp_path: Path, serving: str) -> None:
    with socket.create_server((LOOPBACK, walking.PORT)), pytest.raises(PortTaken, match=str(walking.PORT)):
        walk(tmp_path, served(serving))


def test_a_command_without_an_end_is_given_up(tmp_path: Path) -> None:
    shell = Shell(tmp_path, os.environ)
    with pytest.raises(Unanswered, match="begun"):
        shell.type("echo begun; sleep 100", limit_s=0.3)
    shell.close()


def test_a_command_that_ends_early_is_noticed(tmp_path: Path) -> None:
    staying = Staying("echo early", tmp_path, os.environ, log=tmp_path / "log")
    assert not staying.until(lambda: "late" in staying.printed, limit_s=20.0)
    assert staying.printed == "early\n"
    staying.close()
