"""The steps of the Dockerfile."""

import re

from lab.testbed.parts.service import ROOT


def steps() -> list[list[tuple[str, str]]]:
    """The stages of the Dockerfile: (instruction, rest) of each line, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    lines = [line.partition(" ") for line in text.splitlines() if line.strip() and not line.startswith("#")]
    stages: list[list[tuple[str, str]]] = []
    for instruction, _, rest in lines:
        if instruction == "FROM":
            stages.append([])
        stages[-1].append((instruction, rest))
    return stages
