"""The stories that the simulator and the real kube-scheduler both tell: what they say here, in virtual time.

tests/e2e/gangs/test_agreement.py tells the same ones on the real programs and compares.
"""

from typing import Any

import pytest

from lab.simulator.agreement.simulated import tell
from lab.simulator.agreement.stage import Story
from lab.simulator.agreement.stories import STORIES

FOUR = ["n1", "n2", "n3", "n4"]
FACTS: dict[str, dict[str, Any]] = {
    "only_one_node_fits": {"placed": {"p": "large"}},
    "the_emptier_node": {"placed": {"p1": "large", "p2": "large"}, "asked": 0},
    "a_gang_starts_whole": {"nodes": FOUR},
    "the_last_member_comes_late": {"waits": True, "asked while quiet": 0, "nodes": ["n1", "n2"]},
    "a_refused_pod_is_asked_twice": {"waits": True, "asked": 2},
    "a_new_node_wakes_the_refused": {"waits": True, "placed": {"g-0": "far"}},
    "in_tree_filters_come_first": {"waits": True, "asked": 0, "placed": {"p": "fast"}},
    "room_goes_to_the_urgent": {"waits": True, "got": ["w-urgent"], "in the end": ["w-urgent"]},
    "pods_without_gangs_start_in_part": {"waits": True, "a": ["a-0", "a-1", "a-2"], "b": ["b-0", "b-1", "b-2"]},
    "two_gangs_in_room_for_one": {"sizes": [0, 4], "then": 4},
    "more_members_than_the_minimum": {"nodes": FOUR, "bound": 4, "refused": 1},
    "gated_members_are_asked_once": {"at the gate": (0, 3), "nodes": FOUR, "refused": 0, "asked": 4},
    "each_role_where_it_fits": {"placed": {"g-ps": "plain", "g-w0": "gpu-2", "g-w1": "gpu-1"}},
}


def test_every_story_has_its_facts() -> None:
    assert set(FACTS) == {story.__name__ for story in STORIES}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_a_story(story: Story) -> None:
    assert FACTS[story.__name__] == tell(story)
