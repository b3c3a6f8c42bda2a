from collections.abc import Iterator

import pytest

from lab.bench.testbed.commands import BedUnavailable
from lab.bench.testbed.nodes import Bed, bed, examine
from lab.testbed.cluster import Cluster
from lab.testbed.parts.node_kubelet import POD_CONTROLLERS, STAGES


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """node1 … as network namespaces, by default two; skipped, with what is missing, where they cannot be had."""
    try:
        examine()
    except BedUnavailable as error:
        pytest.skip(str(error))
    with bed(nodes=tuple(f"node{i}" for i in range(1, getattr(request, "param", 2) + 1))) as made:
        yield made


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """For pods that are processes (`lab.testbed.parts.node_kubelet`)."""
    with Cluster(controllers=POD_CONTROLLERS, stage_names=STAGES) as running:
        yield running
