"""The Dockerfile against hadolint, and against the rules that we would not want to lose with it."""

import re
import subprocess
import sys
from pathlib import Path

from lab.testbed.parts.service import ROOT
from tests.liveness import LIVENESS_S

DOCKERFILE = ROOT / "Dockerfile"


def steps() -> list[list[tuple[str, str]]]:
    """What stands before the first stage, then each stage."""
    text = re.sub(r"\\\n\s*", "", DOCKERFILE.read_text())
    lines = [line.partition(" ") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    stages: list[list[tuple[str, str]]] = [[]]
    for instruction, _, rest in lines:
        if instruction == "FROM":
            stages.append([])
        stages[-1].append((instruction, rest))
    return stages


def test_hadolint_finds_nothing(tmp_path: Path) -> None:
    linter = Path(sys.executable).with_name("hadolint")
    assert linter.exists(), "make setup installs it"
    config = tmp_path / "hadolint.yaml"
    config.write_text("ignored: []\n")
    command = [str(linter), "--no-color", "--disable-ignore-pragma", "--config", str(config), "-"]
    text = DOCKERFILE.read_text()
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=LIVENESS_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_image_runs_as_nobody_and_without_a_shell() -> None:
    """A numeric user, so that runAsNonRoot can be checked; nothing is run or fetched in the last stage."""
    *_, final = steps()
    said = dict(final)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", said["USER"])
    assert said["ENTRYPOINT"].startswith("[")
    assert said["CMD"].startswith("[")
    assert {"RUN", "ADD", "VOLUME"}.isdisjoint(said)
    assert "HEALTHCHECK" not in said, "probes of the Deployment ask; kubelets do not look at it"
    order = [instruction for instruction, _ in final]
    assert order.index("COPY") < order.index("USER") < order.index("ENTRYPOINT")
    copied = [rest for instruction, rest in final if instruction == "COPY"]
    assert all(rest.startswith("--from=build ") for rest in copied)


def test_the_image_s_uv_is_the_checkout_s() -> None:
    wanted = re.search(r"uv==(\S+)", DOCKERFILE.read_text())
    assert wanted is not None
    assert f"UV_VERSION := {wanted[1]}\n" in (ROOT / "Makefile").read_text()
