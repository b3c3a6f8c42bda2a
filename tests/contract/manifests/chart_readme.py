"""charts/netgang/README.md as it must be, written from Chart.yaml and values.yaml with their comments: renew it with
`.venv/bin/python -m tests.contract.manifests.chart_readme`.

A comment above a key describes it, and one behind a value that value; comments that look like YAML are examples.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.contract.reference.text import table

CHART = Path(__file__).parents[3] / "charts/netgang"
FILE = CHART / "README.md"
_KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):(?: [^#]*?)?(?: *# (?P<comment>.*))?")
_WHOLE = ("resources",)  # shown as one value

_HEAD = """# netgang

{description}.

Version {version}. Kubernetes 1.35 or newer, Helm 3.18 or newer. What is installed, and how to upgrade and uninstall:
docs/start/install.md in the repository.

```sh
kubectl create namespace netgang-system
helm install netgang netgang-{version}.tgz -n netgang-system --set image.repository=registry.example.org/netgang
netgang doctor
```

`helm template` without a cluster does not know its version: say it (`--kube-version 1.36.3`), or the second
kube-scheduler gets the version that Helm was built for. `values.schema.json` refuses misspelt values.

## Values

"""


def comments() -> dict[str, str]:
    """Dotted key → what is said above it and behind it, of keys that begin a line."""
    found: dict[str, str] = {}
    path: list[str] = []
    above: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        if line.startswith("# ") and not re.match(r"# (- |  )", line):
            above.append(line[2:])
        elif match := _KEY.fullmatch(line):
            path = [*path[: len(match["indent"]) // 2], match["key"]]
            found[".".join(path)] = " ".join(filter(None, [" ".join(above), match["comment"]]))
            above = []
        else:
            above = []
    return found


def defaults(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, value) of all that can be set."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in _WHOLE:
            yield from defaults(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def text() -> str:
    """The page."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    said = comments()
    rows = []
    for name, value in defaults(yaml.safe_load((CHART / "values.yaml").read_text())):
        section, _, rest = name.partition(".")
        words = " ".join(filter(None, [said.pop(section, "") if rest else "", said.pop(name, "")]))
        rows.append((f"`{name}`", f"`{json.dumps(value)}`", words))
    head = _HEAD.format(description=chart["description"], version=chart["version"])
    return head + table(("value", "default", "what for"), rows)


if __name__ == "__main__":
    FILE.write_text(text())
