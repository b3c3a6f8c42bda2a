"""Notes that are not ours, whatever they are for, are told (docs/safety.md S21)."""

from extender.cache import ClusterCache
from extender.controllers.events.left_out import IgnoredNotes
from extender.notes import Bearer, Flaw, NoteKind
from tests import builders
from tests.extender.controllers.contexts import context_over
from tests.fakes.clock import FakeClock
from tests.fakes.cluster_api import FakeClusterApi


def test_an_ignored_note_of_each_kind_is_told() -> None:
    ignored = IgnoredNotes(context_over(FakeClusterApi(), ClusterCache(), FakeClock()))
    gang = builders.gang("g", 1)
    for kind in NoteKind:
        ignored.heard(kind, Bearer("v1", "Pod", "default", "g-0", gang.members[0].uid), Flaw.FORGED)
    ignored.look()
    assert len(ignored.of(gang)) == 5
