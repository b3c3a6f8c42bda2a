"""PodGroups in the cache: a status decides nothing, and other clients that write statuses are known."""

from msgspec.structs import replace

from extender.cache import ClusterCache
from scoring.ids import gang_key
from scoring.model import GangSource, GroupRef, GroupStatus, PodGroup
from tests.builders import pod

KEY = gang_key("default", "g")
SEEN = PodGroup(KEY, 2, uid="u1", resource_version="1")


def test_a_status_changes_nothing_that_is_planned() -> None:
    cache = ClusterCache()
    cache.pods.put(replace(pod("p"), group=GroupRef(KEY, GangSource.POD_GROUP)))
    cache.pod_groups.put(SEEN)
    before = cache.snapshot()
    written = replace(SEEN, resource_version="2", status=GroupStatus("Running", running=2), ours=True)
    cache.pod_groups.put(written)
    assert cache.snapshot() is before
    assert cache.pod_groups.of(before.gangs[KEY]) is written
    cache.pod_groups.replace([replace(written, min_member=5)])
    assert cache.snapshot().gangs[KEY].min_member == 5


def test_other_writers_are_known_as_long_as_they_show() -> None:
    groups = ClusterCache().pod_groups
    other = replace(SEEN, key=gang_key("x", "y"), other_writer="controller")
    groups.put(SEEN)
    groups.put(other)
    assert groups.other_writer == "controller"
    groups.put(replace(other, other_writer=""))
    assert groups.other_writer is None
    groups.put(other)
    groups.replace([SEEN])
    assert (groups.other_writer, list(groups.by_key)) == (None, [KEY])
