"""The figures of the code's structure: what counts as a module entered, as a return and as a circle."""

import grimp

from lab.bench.structure import Walk, package, snapshot_walk


def test_a_second_way_into_a_module_is_a_return() -> None:
    """The first arrow into a module enters it; each other one comes back to it, however often it is gone."""
    walk = Walk({("", "a"): 1, ("a", "a.b"): 9, ("a", "c"): 1, ("c", "a.b"): 4})
    assert walk.modules == ["a", "a.b", "c"]
    assert walk.returns == 1


def test_within_a_package_others_are_one_caller() -> None:
    walk = Walk({("", "a"): 1, ("x", "a.b"): 1, ("y", "a.b"): 1, ("a", "x"): 1})
    assert walk.within("a").arrows == {("", "a"): 1, ("", "a.b"): 1}


def test_the_planner_is_walked_the_same_way_each_time() -> None:
    walks = [snapshot_walk().within("scoring.plan") for _ in range(3)]
    assert all(walk.arrows == walks[0].arrows for walk in walks)
    assert len(walks[0].modules) > 5


def test_loose_files_are_those_beside_the_folders() -> None:
    found = package("lab.bench.peers", grimp.build_graph("lab"))
    assert found.files > found.loose > 0
