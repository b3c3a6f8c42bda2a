"""docs/how-to/cli.md and manifests/people: commands and options exist, and the Roles are what they need."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.main import app
from client.connect.said import DEFAULT, target

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/how-to/cli.md").read_text()
ROLES: dict[str, Any] = {
    one["metadata"]["name"]: one for one in yaml.safe_load_all((ROOT / "manifests/people/rbac.yaml").read_text())
}
_SHELL = "\n".join(re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
COMMANDS = sorted(
    {
        *re.findall(r"(?:^|\s)netgang (.+)$", _SHELL, re.MULTILINE),
        *re.findall(r"`(?:kubectl )?netgang ([a-z][^`<]*)`", TEXT),
    }
)


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_in_the_page_are_understood(line: str) -> None:
    """Command and options are known: what is not known is refused before --help is shown."""
    result = CliRunner().invoke(app, [*shlex.split(line), "--help"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output


def test_roles_in_the_page_exist() -> None:
    """And are in netgang's namespace, bound to none."""
    assert set(re.findall(r"--role=([a-z-]+)", TEXT)) == set(ROLES)
    where = target(DEFAULT)
    assert {one["metadata"]["namespace"] for one in ROLES.values()} == {where.namespace}
    assert {one["kind"] for one in ROLES.values()} == {"Role"}


def test_the_roles_allow_what_is_asked_and_nothing_else() -> None:
    """Port-forward: list pods and forward; the proxy: the port for people of netgang's Service."""
    assert [_rule(one) for one in ROLES["netgang-port-forward"]["rules"]] == [
        (["pods"], ["list"], None),
        (["pods/portforward"], ["get", "create"], None),
    ]
    paths = [target(name).proxied.split("/")[-2] for name in (DEFAULT, "netgang-system/https:netgang")]
    assert [_rule(one) for one in ROLES["netgang-service-proxy"]["rules"]] == [
        (["services/proxy"], ["get", "create"], paths)
    ]


def _rule(rule: dict[str, Any]) -> tuple[Any, Any, Any]:
    assert rule["apiGroups"] == [""]
    return rule["resources"], rule["verbs"], rule.get("resourceNames")
