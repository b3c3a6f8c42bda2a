"""The settings in force: what is shown of them makes the same settings again, and has no secrets."""

from pathlib import Path

import pytest
import yaml

from extender.settings import in_force
from extender.settings.settings import Settings
from tests.contract.manifests.rendered_manifests import ROOT
from tests.extender.scheduling.world import node_json, running

FILES = sorted([*ROOT.glob("manifests/**/settings.yaml"), *ROOT.glob("examples/**/settings*.yaml")])


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_differs_makes_the_same_settings(file: Path) -> None:
    settings = Settings(**yaml.safe_load(file.read_text()))
    assert Settings(**in_force.changed(settings)) == settings


def test_defaults_are_left_out_and_named() -> None:
    assert in_force.changed(Settings()) == {}
    assert {"port", "queue.order", "score.delay_weight", "network.sources"} <= set(in_force.names())


def test_secrets_are_named_by_their_files() -> None:
    source = {"kind": "opensearch", "url": "https://host/x", "username": "ann", "password_file": "/etc/p"}
    shown = in_force.changed(Settings(network={"sources": [source]}))
    assert shown["network"]["sources"][0] == source


@pytest.mark.looptime
async def test_they_are_served() -> None:
    async with running(node_json("n1", cpu="1"), queue={"order": "fifo"}) as world:
        found = (await world.get("/v1/settings")).json()
    assert found["changed"]["queue"] == {"order": "fifo"}
    assert "queue.order" in found["names"]
    assert found["version"]
