"""The comparison's loads and ways: the same pods for every way, and nothing that cannot be bound."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from lab.bench.peers.compare import tasks, turned
from lab.bench.peers.goals import pairs_with_goals
from lab.bench.peers.halves import names_of
from lab.bench.peers.others import COSCHEDULING_CONFIG, KUEUE, KUEUE_SECOND, VOLCANO, VOLCANO_SAMPLED, peer
from lab.bench.peers.quota import quota_of
from lab.bench.peers.ways import DEFAULT, GATE, OURS, TENANT, WAYS, Extender, Way
from lab.bench.peers.workloads import FEW, NAMESPACE, QUICK, WORKLOADS, Arrival, Workload, chosen, gang_of
from lab.testbed.parts.kueue_jobs import queues
from lab.testbed.parts.volcano import GROUP_ANNOTATION
from lab.testbed.processes.schedulers import load_configuration
from lab.testbed.programs.catalogue import Version

SMALL = Workload("small", "3 gangs of 2", 8, 2, 4, 3, 2, ways=tuple(WAYS))
BOTH = {**WORKLOADS, **{f"quick {name}": load for name, load in QUICK.items()}}


@pytest.fixture
def given(tmp_path: Path) -> Way:
    binary = tmp_path / "my-scheduler"
    binary.write_text("")
    return peer(f"mine={binary},{COSCHEDULING_CONFIG}")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_has_the_same_load(way: Way) -> None:
    pods = [one for one in SMALL.backlog(way) if one["kind"] == "Pod"]
    assert names_of(pods) == names_of(SMALL.backlog(WAYS["none"]))
    assert len(pods) == SMALL.pods == 6
    assert {one["metadata"]["namespace"] for one in pods} == {NAMESPACE}
    assert {one["spec"]["schedulerName"] for one in pods} == {way.scheduler_name}
    assert all(bool(one["metadata"]["labels"]) == way.grouped for one in pods)
    assert all(("schedulingGates" in one["spec"]) == way.gated for one in pods)
    requests = [one["spec"]["containers"][0]["resources"]["requests"] for one in pods]
    assert {one["cpu"] for one in requests} == {"1"}
    assert all(("schedulingGroup" in one["spec"]) == way.native for one in pods)


def test_a_peers_gangs_are_pod_groups(given: Way) -> None:
    objects = SMALL.backlog(given)
    groups = [one for one in objects if one["kind"] == "PodGroup"]
    assert [one["spec"]["minMember"] for one in groups] == [2, 2, 2]
    assert len(names_of(objects)) == 6
    pods = [one for one in objects if one["kind"] == "Pod"]
    assert {one["spec"]["schedulerName"] for one in pods} == {"coscheduling"}
    assert all("scheduling.x-k8s.io/pod-group" in one["metadata"]["labels"] for one in pods)


@pytest.mark.parametrize("name", [VOLCANO, VOLCANO_SAMPLED])
def test_volcanos_gangs_and_single_pods_are_in_groups_of_its_own(name: str) -> None:
    load = replace(SMALL, oversized=True)
    objects = [*load.never_fitting(peer(name)), *load.backlog(peer(name)), *load.single("alone", peer(name))]
    groups = [one for one in objects if one["kind"] == "PodGroup"]
    assert {one["apiVersion"] for one in groups} == {"scheduling.volcano.sh/v1beta1"}
    sizes = Counter(one["metadata"]["annotations"][GROUP_ANNOTATION] for one in objects if one["kind"] == "Pod")
    assert sizes == {one["metadata"]["name"]: one["spec"]["minMember"] for one in groups}
    assert {one["spec"]["schedulerName"] for one in objects if one["kind"] == "Pod"} == {"volcano"}


@pytest.mark.parametrize("name", [KUEUE, KUEUE_SECOND])
def test_kueues_gangs_are_suspended_jobs_that_make_the_same_pods(name: str) -> None:
    way = peer(name)
    jobs = SMALL.backlog(way)
    assert {one["kind"] for one in jobs} == {"Job"}
    assert names_of(jobs) == names_of(SMALL.backlog(WAYS["none"]))
    for one in jobs:
        assert one["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": TENANT}
        assert (one["spec"]["suspend"], one["spec"]["parallelism"], one["spec"]["completions"]) == (True, 2, 2)
        template = one["spec"]["template"]
        assert template["spec"]["schedulerName"] == way.scheduler_name
        assert template["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "1"
        assert bool(template["metadata"]["labels"]) == way.is_netgang, "gangs to netgang, single pods to kube-scheduler"
        assert "training.kubeflow.org/replica-index" not in template["metadata"]["labels"]


@pytest.mark.parametrize("name", ["plain", "never", "rooms"])
def test_kueue_is_not_measured_where_pods_without_its_quota_use_nodes(name: str) -> None:
    [task] = tasks(chosen([name], quick=False), ways=[], pairs=None, peers=[peer(KUEUE)])
    assert KUEUE not in {way.name for way in task.ways}
    with pytest.raises(ValueError, match="gangs of Jobs only"):
        tasks(chosen([name], quick=False), ways=[KUEUE], pairs=None, peers=[peer(KUEUE)])


def test_kueues_quota_is_what_all_nodes_have() -> None:
    load = WORKLOADS["gangs"]
    [flavor, cluster_queue, local_queue] = queues({TENANT: 1}, quota_of(load.node_objects()), namespace=NAMESPACE)
    [group] = cluster_queue["spec"]["resourceGroups"]
    quota = {one["name"]: one["nominalQuota"] for one in group["flavors"][0]["resources"]}
    assert quota == {"cpu": "1200000m", "memory": str(100 * 256 * 2**30)}
    assert (flavor["kind"], local_queue["spec"]) == ("ResourceFlavor", {"clusterQueue": TENANT})


def test_several_tenants_borrow_everything_by_their_weights() -> None:
    made = queues({"a": 2, "b": 1}, {"cpu": "8"}, namespace=NAMESPACE)
    found = {one["metadata"]["name"]: one["spec"] for one in made if one["kind"] == "ClusterQueue"}
    quota = {
        name: spec["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] for name, spec in found.items()
    }
    assert quota == {"lender": "8", "a": "0", "b": "0"}
    assert [found[name]["fairSharing"]["weight"] for name in ("a", "b")] == ["2", "1"]
    assert len({spec["cohortName"] for spec in found.values()}) == 1
    with pytest.raises(ValueError, match="no tenants"):
        queues({}, {"cpu": "8"}, namespace=NAMESPACE)


def test_an_oversized_gang_never_fits_and_leaves_room_for_the_others_beside_all_that_do() -> None:
    load = WORKLOADS["oversized"]
    members = [one for one in load.never_fitting(WAYS["second"]) if one["kind"] == "Pod"]
    [cpu] = {int(one["spec"]["containers"][0]["resources"]["requests"]["cpu"]) for one in members}
    assert load.node_cpu // cpu == 1
    assert len(members) == load.size_of(gang_of(names_of(members)[0])) == load.nodes + 1
    assert load.pods <= load.nodes * (load.node_cpu - cpu)
    assert SMALL.never_fitting(WAYS["second"]) == []


WRONG = {  # case: (what is said, text)
    "no equals sign": ("neither", "mine"),
    "no configuration": ("neither", "mine=/bin/true"),
    "a way's name": ("a way already", "none=/bin/true,x.yaml"),
    "a peer's name": ("a way already", "volcano=/bin/true,x.yaml"),
    "no such file": ("is not a file", "mine=/nowhere/scheduler,x.yaml"),
}


@pytest.mark.parametrize(("said", "text"), WRONG.values(), ids=WRONG)
def test_a_peer_that_cannot_be_is_refused(said: str, text: str) -> None:
    with pytest.raises(ValueError, match=said):
        peer(text)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_way_has_a_scheduler_for_its_pods(way: Way) -> None:
    documents = [load_configuration(one.configuration) for one in way.schedulers]
    profiles = [one.get("profiles") or [{"schedulerName": DEFAULT}] for one in documents]
    assert way.scheduler_name in {profile["schedulerName"] for some in profiles for profile in some}
    asked = way.settings().get("extender", way.extender is not Extender.NONE)
    assert any("extenders" in one for one in documents) == asked


def test_all_ways_but_one_score_every_node() -> None:
    sampled = {
        name
        for name, way in WAYS.items()
        for one in way.schedulers
        if load_configuration(one.configuration).get("percentageOfNodesToScore") != 100
    }
    assert sampled == {"none-sampled"}


def test_netgang_gets_the_settings_that_go_with_its_scheduler() -> None:
    assert WAYS["default"].settings()["scheduler_names"] == [DEFAULT]
    assert WAYS["second"].settings() == {}
    assert WAYS["second"].scheduler_name == OURS
    assert not {"host", "port"} & WAYS["native"].settings().keys()
    assert WAYS["second-gated"].gates == (GATE,)


@pytest.mark.parametrize("load", BOTH.values(), ids=BOTH)
def test_every_load_has_room_where_it_should(load: Workload) -> None:
    """A backlog that cannot be bound whole would measure nothing; the gang that never fits does not."""
    assert set(load.ways) <= set(WORKLOADS[load.name].ways) <= set(WAYS), "small loads have some of the ways"
    assert load.nodes % load.zones == 0
    room = load.nodes * load.node_cpu
    match load.arrival:
        case Arrival.BACKLOG | Arrival.LIVE:
            assert load.pods * load.cpu <= room
            assert load.size * load.cpu <= room // load.zones
        case Arrival.NEVER:
            assert load.size > load.nodes * (load.node_cpu // load.cpu)
            assert load.nodes * (load.node_cpu - load.cpu) >= 20, "room for those that come and go beside it"
        case Arrival.ROOMS:
            assert load.cpu == load.node_cpu


LIMITS_S = {"default": (30 * 60.0, False), "quick": (5 * 60.0, True)}


@pytest.mark.parametrize(("limit_s", "quick"), LIMITS_S.values(), ids=LIMITS_S)
def test_the_expected_duration_is_bounded(limit_s: float, quick: bool) -> None:
    todo = tasks(chosen([], quick=quick), ways=[], pairs=None)
    assert limit_s / 4 < sum(one.expected_s for one in todo) <= limit_s


def test_each_way_leads_in_turn() -> None:
    some = ["none", "second", "default"]
    for place in range(3):
        assert {turned(some, number)[place] for number in range(3)} == set(some)
    assert turned([], 1) == []


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("load", BOTH.values(), ids=BOTH)
def test_what_a_goal_holds_against_each_other_is_measured_side_by_side(load: Workload, number: int, given: Way) -> None:
    [task] = tasks([load], ways=[], pairs=None, present=[replace(given, name="coscheduling")])
    order = [way.name for way in task.ways_of(number)]
    measured = {way.name for way in task.ways if number < FEW or way.name not in task.few}
    pairs = [pair for pair in pairs_with_goals(load.name) if measured >= set(pair)]
    assert {frozenset(pair) for pair in pairs} <= {frozenset(pair) for pair in pairwise(order)}
    assert set(order) == measured
    assert len(order) <= len(measured) + 1


def test_every_second_round_goes_backwards() -> None:
    """So that neither of two neighbours always comes first."""
    [task] = tasks(chosen(["gangs"], quick=False), ways=["none", "second", "second-gated"], pairs=4)
    first, second, third, _ = ([way.name for way in task.ways_of(number)] for number in range(4))
    assert first == third == second[::-1] == ["second", "none", "second-gated"]


def test_tasks_take_what_is_asked_for(given: Way) -> None:
    loads = chosen(["plain", "gangs"], quick=False)
    named = tasks(loads, ways=["second", "none"], pairs=2)
    assert [[way.name for way in one.ways] for one in named] == [["none", "second"]] * 2
    assert {one.pairs for one in named} == {2}
    plain, gangs = tasks(loads, ways=[], pairs=None, peers=[given])
    assert "mine" not in {way.name for way in plain.ways}
    assert "mine" in {way.name for way in gangs.ways}
    assert (plain.pairs, gangs.pairs) == (5, 5)
    with pytest.raises(ValueError, match="nothing-like-it"):
        tasks(loads, ways=["nothing-like-it"], pairs=None)


@pytest.mark.parametrize(("version", "api"), [("1.36.3", "v1alpha2"), ("1.37.2", "v1beta1")])
def test_native_gangs_are_written_for_the_version_that_runs(version: str, api: str) -> None:
    [task] = tasks([SMALL], ways=["native-alone", "none"], pairs=1, kubernetes=Version(version))
    assert {way.kubernetes for way in task.ways} == {version}
    groups = [one for one in SMALL.backlog(task.ways[-1]) if one["kind"] == "PodGroup"]
    assert {one["apiVersion"] for one in groups} == {f"scheduling.k8s.io/{api}"}


def test_ways_without_a_goal_are_measured_less_often() -> None:
    [whole] = tasks(chosen(["gangs"], quick=False), ways=[], pairs=None)
    last = {way.name for way in whole.ways_of(whole.pairs - 1)}
    assert last == {"none", "second", "second-gated", "beside", "idle-second"}
    assert {way.name for way in whole.ways_of(1)} == set(WORKLOADS["gangs"].ways)
    assert whole.halves == 5 * (5 + 1) + 2 * 4, "none is measured twice, beside each of its neighbours"
    [asked] = tasks(chosen(["gangs"], quick=False), ways=["none", "echo"], pairs=5)
    assert asked.halves == 10
    [no_goal] = tasks(chosen(["large"], quick=False), ways=[], pairs=None)
    assert no_goal.halves == no_goal.pairs * len(no_goal.ways)


def test_a_peer_that_is_built_takes_part_where_the_load_names_it(given: Way) -> None:
    present = replace(given, name="coscheduling")
    gangs, large = tasks(chosen(["gangs", "large"], quick=False), ways=[], pairs=None, present=[present])
    assert "coscheduling" in {way.name for way in gangs.ways_of(gangs.pairs - 1)}
    assert "coscheduling" not in {way.name for way in large.ways}


def test_a_slowed_api_server_is_expected_to_take_longer() -> None:
    """And nothing is thrown away first: that would take as long."""
    slow = WORKLOADS["slow"]
    assert slow.half_s > 2 * replace(slow, api_share=1.0).half_s
    assert not slow.warms_up
