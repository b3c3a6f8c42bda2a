"""The API server in memory: what tests/contract/test_cluster_api.py cannot see."""

import pytest

from extender.errors import ApiError, ConflictError, GoneError
from extender.kube.calls import EVENTS, PODS
from lab.testbed.apiserver import store as store_module
from lab.testbed.apiserver.store import ApiStore


def test_a_patch_without_effect_is_no_change() -> None:
    store = ApiStore()
    store.put(PODS, {"metadata": {"name": "p"}})
    store.merge_patch(PODS, "default", "p", {"metadata": {"annotations": {"x": "1"}}})
    version = store.version
    store.merge_patch(PODS, "default", "p", {"metadata": {"annotations": {"x": "1"}}})
    assert store.version == version
    with pytest.raises(ConflictError):
        store.merge_patch(PODS, "default", "p", {"metadata": {"resourceVersion": "1"}, "spec": {"x": 1}})


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch from before what is kept is refused with 410, as after compaction."""
    monkeypatch.setattr(store_module, "HISTORY", 3)
    store = ApiStore()
    for number in range(6):
        store.put(PODS, {"metadata": {"name": f"p{number}"}})
    with pytest.raises(GoneError):
        store.check_watch(PODS, 1)
    store.check_watch(PODS, 4)


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
