"""docs/start/install.md: the versions it promises are those that are tested; the parts it lists are all there are."""

import json
import re
from pathlib import Path

import yaml

from cli.doctor.facts import Facts
from cli.doctor.service import check_versions
from extender.settings.settings import Settings
from lab.testbed.parts.helm import CHART
from lab.testbed.programs.catalogue import E2E, KUBERNETES, PROGRAMS, TESTED

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/start/install.md").read_text()


def table(heading: str) -> list[list[str]]:
    section = TEXT.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def matrix() -> dict[str, dict[str, str]]:
    """Row → minor version → what is said."""
    head, *rows = table("Versions")
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def test_the_versions_are_those_of_the_test_bed() -> None:
    said = matrix()["API server and kube-scheduler in the tests"]
    when = {KUBERNETES: "every change"}
    assert said == {minor(one): f"{one}, {when.get(one, 'on demand')}" for one in sorted(TESTED)}


def test_the_command_for_the_other_versions_is_the_makefiles() -> None:
    command = f"VERSIONS={','.join(TESTED)}"
    assert f"`make e2e {command}`" in TEXT
    makefile = (ROOT / "Makefile").read_text()
    assert command in makefile
    assert f"VERSIONS ?= {KUBERNETES}" in makefile


def test_the_oldest_version_is_the_doctors() -> None:
    oldest = min(map(minor, TESTED))
    before = f"1.{int(oldest.partition('.')[2]) - 1}.0"

    def found(version: str) -> list[str]:
        return [one.id for one in check_versions(Facts(Settings(), kubernetes=version))]

    assert (found(f"v{oldest}.0"), found(f"v{before}")) == ([], ["kubernetes-old"])


def test_the_apis_of_gates_are_those_that_the_chart_can_use() -> None:
    said = set(re.findall(r"`(v1\w*)`", " ".join(matrix()["gates set by an admission policy"].values())))
    schema = json.loads((CHART / "values.schema.json").read_text())
    offered = schema["properties"]["gates"]["properties"]["apiVersion"]["enum"]
    assert said == {one.rpartition("/")[2] for one in offered}


def test_every_part_is_listed() -> None:
    switches = {match for row in table("What can be added")[1:] for match in re.findall(r"`(\w+)\.enabled`", row[0])}
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    there = {name for name, one in values.items() if isinstance(one, dict) and "enabled" in one}
    assert switches == there - {"uninstall"}


def test_what_e2e_asks_for_is_built_before_its_tests() -> None:
    assert set(E2E) == set(PROGRAMS) - {"prometheus", "coscheduling", "vc-scheduler"}
    lines = (ROOT / "Makefile").read_text().splitlines()
    built, tested = (
        next(number for number, line in enumerate(lines) if words in line)
        for words in ("testbed build --e2e", "tests/e2e tests/browser --e2e=all")
    )
    assert built < tested
