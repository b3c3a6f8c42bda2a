"""`make manifests`: write what the chart renders into manifests/ and tests/fixtures/rendered."""

from pathlib import Path
from tempfile import TemporaryDirectory

from lab.testbed.parts.helm import Helm, find_helm
from lab.testbed.programs.build import ensure_program
from tests.contract.manifests.rendered import rendered

if __name__ == "__main__":
    with TemporaryDirectory() as home:
        for path, text in rendered(Helm(find_helm() or ensure_program("helm"), Path(home))).items():
            path.write_text(text)
