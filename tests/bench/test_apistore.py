"""The API server in memory: names are what the real one makes of them."""

import pytest

from bench.apiserver.store import ApiStore
from extender.errors import ApiError
from extender.kube.calls import EVENTS, PODS


def test_events_are_named_by_the_server() -> None:
    """As netgang posts them: with `generateName`, each under a name of its own."""
    store = ApiStore()
    names = [store.put(EVENTS, {"metadata": {"generateName": "p-"}})["metadata"]["name"] for _ in range(2)]
    assert len(set(names)) == 2
    assert all(name.startswith("p-") for name in names)
    assert len(store.bodies(EVENTS)) == 2


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"generateName": ""}], ids=["none", "no name", "no stem"])
def test_nothing_is_stored_without_a_name(metadata: dict[str, str]) -> None:
    """422, as from the real one."""
    with pytest.raises(ApiError) as refused:
        ApiStore().put(PODS, {"metadata": metadata})
    assert refused.value.status == 422
