"""The Dockerfile's steps in a clean directory: what it copies is enough, and what it installs runs.

There is no container engine here: the steps of its first stage are done in a temporary directory, but those of Debian's
packages, and its second stage, which only copies, is checked by running what was installed without the checkout.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from lab.testbed.parts.installed import installed_settings
from lab.testbed.parts.service import ROOT
from tests.contract.manifests.test_image_rules import steps

UV = Path(sys.executable).with_name("uv")


def run(*command: str | Path, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    words = [str(one) for one in command]
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=280, check=False)


def copy(rest: str, target: Path) -> None:
    *sources, place = shlex.split(rest)
    for source in sources:
        one = ROOT / source
        if one.is_dir():
            shutil.copytree(one, target / place, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copy(one, target / place)


@pytest.mark.timeout(300)
def test_the_image_s_steps_give_a_netgang_that_runs(tmp_path: Path) -> None:
    build, final = steps()
    work, installed = tmp_path / "src", tmp_path / "opt"
    work.mkdir()
    dropped = ("NETGANG_", "PYTHON", "VIRTUAL_ENV", "PYTEST")  # the machine's own way to packages stays
    environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    for instruction, rest in build:
        match instruction:
            case "ENV":
                environment |= dict(pair.split("=", 1) for pair in shlex.split(rest))
                environment["UV_PROJECT_ENVIRONMENT"] = str(installed)
                environment["UV_COMPILE_BYTECODE"] = "0"  # only saves the image's first start
            case "COPY":
                copy(rest, work)
            case "RUN" if rest.startswith("uv "):
                done = run(UV, *shlex.split(rest)[1:], "--python", sys.executable, cwd=work, env=environment)
                assert done.returncode == 0, done.stderr
            case "RUN" if rest.startswith("apt-get "):  # not done here: the machine's own packages stay as they are
                assert re.findall(r" ([a-z0-9-]+)=", rest) == ["iperf3"]
            case "RUN":
                wanted = re.search(r"uv==(\S+)", rest)
                assert wanted is not None, rest
                assert f"UV_VERSION := {wanted[1]}" in (ROOT / "Makefile").read_text()
            case _:
                assert instruction in ("FROM", "WORKDIR")
    shutil.rmtree(work)

    place = tmp_path / "elsewhere"
    place.mkdir()
    settings = place / "netgang.yaml"
    settings.write_text(yaml.safe_dump(installed_settings()))
    alone = {"PATH": str(installed / "bin")}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for arguments, said in {
        ("--version",): f"netgang {version}",
        ("doctor", "--no-cluster", "--config", settings): "settings of file",
        ("plan", ROOT / "examples/snapshot/paper-testbed.json", "--json"): '"admitted"',
        ("doctor", "--no-cluster", "--scheduler-config", ROOT / "scheduler-config/second-scheduler.yaml"): "nothing",
        ("uninstall", "--help"): "--leave-gates",
        ("serve", "--help"): "--config",
    }.items():
        done = run(installed / "bin/netgang", *arguments, cwd=place, env=alone)
        assert (done.returncode, said in done.stdout) == (0, True), done.stdout + done.stderr
    assert not list(installed.glob("lib/python3*/site-packages/pytest*"))
    assert dict(final)["ENTRYPOINT"] == '["netgang"]'
