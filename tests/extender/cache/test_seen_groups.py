"""The sink for PodGroups: a status goes beside the cache, what decides goes into it."""

from msgspec.structs import replace

from extender.cache import ClusterCache
from extender.cache.sinks import SeenGroups
from extender.convert.podgroups import SeenPodGroup
from scoring.ids import gang_key
from scoring.model import GangSource, GroupRef, PodGroup
from scoring.queue.podgroup_status import GroupStatus
from tests.builders import pod

KEY = gang_key("default", "g")
SEEN = SeenPodGroup(PodGroup(KEY, 2), uid="u1", resource_version="1")


def cached() -> tuple[ClusterCache, SeenGroups]:
    cache = ClusterCache()
    cache.pods.upsert(replace(pod("p"), group=GroupRef(KEY, GangSource.POD_GROUP)))
    return cache, SeenGroups(cache.pod_groups)


def test_a_status_changes_nothing_that_is_planned() -> None:
    cache, groups = cached()
    groups.upsert(SEEN)
    before = cache.snapshot()
    written = replace(SEEN, resource_version="2", status=GroupStatus("Running", running=2), ours=True)
    groups.upsert(written)
    assert cache.snapshot() is before
    assert groups.get(KEY) is written


def test_a_minimum_does() -> None:
    cache, groups = cached()
    groups.upsert(SEEN)
    assert cache.snapshot().gangs[KEY].min_member == 2
    list(groups.replace_in_steps([replace(SEEN, group=PodGroup(KEY, 5))]))
    assert cache.snapshot().gangs[KEY].min_member == 5
    groups.delete(KEY)
    assert cache.snapshot().gangs[KEY].problem is not None
    assert groups.get(KEY) is None


def test_other_writers_are_known_as_long_as_they_show() -> None:
    _, groups = cached()
    other = replace(SEEN, group=PodGroup(gang_key("x", "y"), 1), other_writer="controller")
    groups.upsert(SEEN)
    assert groups.other_writer is None
    groups.upsert(other)
    assert groups.other_writer == "controller"
    groups.upsert(replace(other, other_writer=""))
    assert groups.other_writer is None
    groups.upsert(other)
    groups.delete("x/y")
    assert groups.other_writer is None
    groups.upsert(other)
    list(groups.replace_in_steps([SEEN]))
    assert (groups.other_writer, list(groups.by_key)) == (None, [KEY])
