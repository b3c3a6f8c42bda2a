"""What a gang is over time and over owners: stories of pods, and the run that is the gang then (docs/safety.md S23)."""

import re
from itertools import combinations, count

import pytest
from msgspec.structs import replace

from extender.cache import gangs
from extender.cache.cluster import ClusterCache
from scoring import GangKey, NodeName, PodUid
from scoring.explain.advice import two_runs
from scoring.model import Controller, JobSays, Phase, Pod, Role, RunRef
from scoring.model.reasons import Reason
from tests.builders import pod
from tests.fuzz.consistency import assert_consistent

G = GangKey("default/g")
TRAINING = "training.kubeflow.org/"
KINDS = {  # owner: (its API version and kind, the kind of its runs, its pods' role, whether they have indexes)
    "Job": ("batch/v1", "Job", "Job.batch", Role.WORKER, False),
    "Indexed": ("batch/v1", "Job", "Job.batch", Role.WORKER, True),
    "JobSet": ("batch/v1", "Job", "Job.batch", Role.WORKER, True),
    "TFJob": ("kubeflow.org/v1", "TFJob", f"{TRAINING}tfjob-controller", Role.WORKER, True),
    "PyTorchJob": ("kubeflow.org/v1", "PyTorchJob", f"{TRAINING}pytorchjob-controller", Role.WORKER, True),
    "MPIJob": ("kubeflow.org/v1", "MPIJob", f"{TRAINING}mpi-operator", Role.WORKER, True),
    "Chief": ("batch/v1", "Job", "Job.batch", Role.CHIEF, False),
    "Launcher": ("batch/v1", "Job", f"{TRAINING}mpi-operator", Role.CHIEF, False),
    "RayCluster": ("ray.io/v1", "RayCluster", "RayCluster.ray.io", Role.WORKER, False),
    "Workflow": ("argoproj.io/v1alpha1", "Workflow", "Workflow.argoproj.io", Role.WORKER, False),
    "Volcano": ("batch.volcano.sh/v1alpha1", "Job", "Job.batch.volcano.sh", Role.WORKER, True),
    "Spark": (
        "sparkoperator.k8s.io/v1",
        "SparkApplication",
        "SparkApplication.sparkoperator.k8s.io",
        Role.CHIEF,
        False,
    ),
    "Executor": ("v1", "Pod", "Pod", Role.WORKER, False),
    "StatefulSet": ("apps/v1", "StatefulSet", "", Role.WORKER, True),
    "ReplicaSet": ("apps/v1", "ReplicaSet", "", Role.WORKER, False),
}


class Story:
    """A gang's pods by name; ten seconds pass with each word, none where a comma joins two.

    `owners`: letter → its kind, maybe `=name`.
    """

    def __init__(self, owners: str) -> None:
        self.owners = dict(owner.split(":") for owner in owners.split())
        self.least, self.at_s, self.serial = 4, 0.0, count()
        self.cache, self.pods = ClusterCache(), dict[str, Pod]()

    def tell(self, words: str) -> None:
        for word in words.replace(",", " , ").split():
            self.at_s += -10.0 if word == "," else 10.0
            if word == ",":
                continue
            if "|" in word:
                self.check(word)
            elif word == "restart":
                self.cache = ClusterCache()
                self.cache.pods.replace(list(self.pods.values()))
            elif word.startswith("min"):
                self.least = int(word[3:])
            elif word.startswith("?"):  # "?a2": owner a was read and wants two
                self.cache.set_owners({f"uid-{word[1]}": JobSays(wanted=int(word[2:]))})
            else:
                for name in [word[1] + digit for digit in word[2:]]:
                    self.act(word[0], name)

    def act(self, what: str, name: str) -> None:
        """`.` it is made, `+` it is on a node and runs, `=` it ended well, `!` it failed, `-` it is gone."""
        if what == "-":
            del self.pods[name]
            return self.cache.pods.remove(f"default/{name}")
        if what == ".":
            self.pods[name] = self.created(name)
        else:
            before, phase = self.pods[name], {"+": Phase.RUNNING, "=": Phase.SUCCEEDED, "!": Phase.FAILED}[what]
            at_s = self.at_s if before.scheduled_s is None else before.scheduled_s
            self.pods[name] = replace(before, node=NodeName("n1"), scheduled_s=at_s, phase=phase)
        return self.cache.pods.put(self.pods[name])

    def created(self, name: str) -> Pod:
        kind, _, called = self.owners.get(name[0], "").partition("=")
        job, nobody = called or name[0], ("", "", "", Role.OTHER, False)
        version, owner, family, role, indexed = KINDS.get(kind, nobody)
        bare = pod(name, gang="g", min_available=self.least, created_s=self.at_s, role=role, job=job if kind else None)
        bare = replace(bare, uid=PodUid(f"{name}.{next(self.serial)}"), index=int(name[1:]) if indexed else None)
        uid = self.pods["d0"].uid if kind == "Executor" else f"uid-{name[0]}"
        its_name = f"{job}-launcher" if kind == "Launcher" else job
        run = RunRef(uid, family, its_name, "set" if kind == "JobSet" else "") if family else None
        return replace(bare, owner=Controller(version, owner, its_name, uid) if kind else None, run=run)

    def check(self, want: str) -> None:
        """`members|earlier|later|minimum`, then `*` if it has started, or `?` if its pods contradict each other."""
        assert_consistent(self.cache)
        gang = self.cache.snapshot().gangs[G]
        names = ["".join(sorted(pod.name for pod in pods)) for pods in (gang.members, gang.earlier, gang.later)]
        mark = "?" if gang.problem is Reason.INVALID_GROUP else "*" if gang.started else ""
        spread = [re.sub(r"([a-z])(\d+)", lambda m: "".join(m[1] + d for d in m[2]), part) for part in want.split("|")]
        assert "|".join([*names, f"{gang.min_member}{mark}"]) == "|".join(spread), want


DONE = ".a0123 +a0123 =a0123 "
STORIES = {  # case: (owners, story)
    # One owner, several runs
    "Workflow: a second step begins, pod by pod": ("a:Workflow", DONE + ".a4 a4|a0123||4 .a567 +a4567 a4567|a0123||4*"),
    "Workflow: it has ended": ("a:Workflow", DONE + "a0123|||4*"),
    "Workflow: a third step": ("a:Workflow", DONE + ".a4567 +a4567 =a4567 .a8 a8|a01234567||4"),
    "Workflow: the second step is there after a restart": ("a:Workflow", DONE + ".a4567 restart a4567|a0123||4"),
    "Workflow: one pod after a restart is a replacement, maybe": ("a:Workflow", DONE + "restart .a4 a01234|||4*"),
    "Workflow: a pod of the step failed and is made again": ("a:Workflow", ".a0123 +a0123 =a012 !a3 .a4 a01234|||4*"),
    "Workflow: the same, then a second step": ("a:Workflow", ".a0123 +a0123 =a012 !a3 .a4 +a4 =a4 .a5 a5|a01234||4"),
    "Workflow: a finished step is cleaned up while the next begins": ("a:Workflow", DONE + "-a012 .a4 a4|a3||4"),
    "Workflow: more pods beside those that run are no step": ("a:Workflow", ".a0123 +a0123 .a4 =a0123 a01234|||4*"),
    "Workflow: the minimum is below a step": ("a:Workflow", "min3 " + DONE + ".a4 a4|a0123||3"),
    "Workflow: one was lost before all others ended": ("a:Workflow", "min3 .a0123 +a0123 -a3 =a012 .a4 a0124|||3*"),
    "Volcano: a place without an end is filled": ("a:Volcano", "min3 .a0123 +a0123 =a012 -a3 restart .a3 a0123|||3*"),
    "bare pods: a second run": ("", DONE + ".b0 b0|a0123||4 .b123 b0123|a0123||4"),
    "bare pods: one for one that failed": ("", ".a0123 +a0123 =a012 !a3 .b0 a0123b0|||4*"),
    "bare pods beside those that run": ("", "min2 .a01 +a01 .b0 a01b0|||2*"),
    # What ended well counts although its pod is gone
    "RayCluster: ended, cleaned up, one lost": ("a:RayCluster", ".a0123 +a0123 =a01 -a01 -a3 .a4 a24|||2*"),
    "the same after a restart is not known": ("a:RayCluster", ".a0123 +a0123 =a01 -a01 -a3 restart .a4 a24|||4"),
    "bare pods: ended, cleaned up, one lost": ("", ".a0123 +a0123 =a01 -a01 -a3 .a4 a24|||2*"),
    "TFJob: ended, cleaned up, one lost": ("a:TFJob", ".a0123 +a0123 =a12 -a12 -a3 .a3 a03|||2*"),
    "TFJob: a place that ended is filled again": ("a:TFJob", ".a0123 +a0123 =a1 -a1 .a1 a0123|||4*"),
    "Job: what failed and is gone counts for nothing": ("a:Job", ".a0123 +a0123 !a0 -a0 a123|||4*"),
    "Indexed: a place that ended and is gone runs again": ("a:Indexed", ".a0123 +a0123 =a3 -a3 .a3 a0123|||4*"),
    "all are gone: nothing is remembered": ("a:Workflow", DONE + "-a0123 .a4 a4|||4"),
    "StatefulSet: its pods are always replaced": ("a:StatefulSet", ".a0123 +a0123 =a3 -a3 a012|||4*"),
    # One owner is one run for as long as it exists
    "TFJob: three ended well, one is made again": ("a:TFJob", ".a0123 +a0123 =a012 !a3 -a3 .a3 a0123|||4*"),
    "TFJob: the same with a minimum of three, after a restart": ("a:TFJob", "min3 .a0123 +a0123 =a012 -a3 restart .a3 "
        "a0123|||3*"),
    "PyTorchJob: only the last one is made again": ("a:PyTorchJob", DONE + "-a3 .a3 a0123|||4*"),
    "Job with more completions than it runs at once": ("a:Job", DONE + ".a45 a012345|||4*"),
    "Indexed Job with more completions": ("a:Indexed", DONE + ".a4567 restart a01234567|||4*"),
    # Owners one after the other
    "CronJob: its next Job": ("a:Job b:Job", DONE + ".b0 b0|a0123||4"),
    "CronJob: its next Job while the first runs": ("a:Job b:Job", ".a0123 +a0123 .b0123 a0123||b0123|4* =a0123 "
        "b0123|a0123||4"),
    "Job created again under its name": ("a:Job b:Job=a", DONE + ".b0 b0|a0123||4"),
    "RayCluster created again under its name": ("a:RayCluster b:RayCluster=a", "min2 .a0 .b0 a0||b0|2"),
    "JobSet: one of its Jobs ended": ("a:JobSet b:JobSet", "min2 .a0 .b0 +a0 +b0 =a0 a0b0|||2*"),
    "JobSet that begins again": ("a:JobSet b:JobSet=a", "min2 .a01 +a01 =a0 !a1 .b0 b0|a01||2"),
    "MPIJob: its launcher is made last": ("a:MPIJob=m l:Launcher=m", ".a012 .l0 +a012 +l0 a012l0|||4*"),
    "MPIJob: its launcher ended": ("a:MPIJob=m l:Launcher=m", ".a012 .l0 +a012 +l0 =l0 a012l0|||4*"),
    "Spark: executors are of their driver": ("d:Spark e:Executor", "min1 .d0 +d0 .e01 d0e01|||1* +e01 =e0 d0e01|||1*"),
    # Owners side by side
    "two RayClusters, neither is a run": ("a:RayCluster b:RayCluster", ".a01 .b01 a01b01|||4 +a01 +b01 a01b01|||4*"),
    "two Workflows of which one is a run": ("a:Workflow b:Workflow", ".a0123 .b01 a0123||b01|4"),
    "three Volcano Jobs": ("a:Volcano b:Volcano c:Volcano", ".a01 .b0 .c0 a01b0c0|||4"),
    "two Jobs that were not read": ("a:Job b:Job", ".a01 .b01 a01||b01|4"),
    "two Jobs, neither is a run": ("a:Job b:Job", ".a01 .b01 ?a2 ?b2 a01b01|||4"),
    "two TFJobs, one is a run": ("a:TFJob b:TFJob", ".a01 .b01 ?a4 ?b2 a01||b01|4"),
    "two PyTorchJobs, neither is a run": ("a:PyTorchJob b:PyTorchJob", ".a01 .b01 ?a2 ?b2 a01b01|||4"),
    "two owners, one ended well, one lost a pod": ("a:RayCluster b:RayCluster", ".a01 .b01 +a01 +b01 =a01 -b1 .b2 "
        "a01b02|||4*"),
    # While an owner rolls
    "StatefulSet: the highest pod has a smaller minimum": ("a:StatefulSet", "min3 .a012 +a012 min2 -a2 .a2 a012|||2*"),
    "StatefulSet: it grows with its minimum": ("a:StatefulSet", "min3 .a012 +a012 min4 .a3 a0123|||4*"),
    "StatefulSet: rolls in the second of its creation": ("a:StatefulSet", "min3 .a01,min2,.a2 a012|||2"),
    "StatefulSet: rolls before it has started": ("a:StatefulSet", "min4 .a012 min3 -a2 .a2 a012|||3"),
    "Deployment: a new ReplicaSet": ("a:ReplicaSet=web-1 b:ReplicaSet=web-2", "min3 .a012 +a012 min2 .b0 a012b0|||2*"),
    "two Deployments contradict each other": ("a:ReplicaSet=web-1 b:ReplicaSet=db-1", "min3 .a01 min2 .b0 a01b0|||3?"),
    "two StatefulSets contradict each other": ("a:StatefulSet b:StatefulSet", "min3 .a01 min2 .b0 a01b0|||2?"),
    "bare pods contradict each other": ("", "min3 .a01 min2 .b0 a01b0|||3?"),
}  # fmt: skip


@pytest.mark.parametrize(("owners", "story"), STORIES.values(), ids=STORIES)
def test_the_run_that_a_gang_is(owners: str, story: str) -> None:
    Story(owners).tell(story)


KINDS_OF = {"Indexed": "Job", "JobSet": "Job", "StatefulSet": "", "ReplicaSet": ""}
PAIRS = list(combinations(sorted(KINDS.keys() - {"Executor", "Launcher", "Spark", "Chief"}), 2))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_two_owners_of_different_kinds_are_one_run(first: str, second: str) -> None:
    """They are no series, so both count, also what ended well. A Job of a JobSet belongs to its JobSet alone."""
    story = Story(f"a:{first} b:{second}")
    if KINDS_OF.get(first, first) != KINDS_OF.get(second, second) or not KINDS[first][2]:
        story.tell(".a01 .b01 a01b01|||4 +a01 +b01 a01b01|||4* =a01 a01b01|||4*")
    elif "JobSet" in (first, second):
        story.tell(".a01 .b01 ?a2 ?b2 a01||b01|4")
    else:
        story.tell(".a01 .b01 a01||b01|4 ?a2 ?b2 a01b01|||4")


ADVICE = {  # advice: (owners of two runs, the owners and the story of who follows it)
    "different roles (netgang.io/role)": ("a:Job b:Job", "a:Chief b:Job", ".a0123 .b0123 a0123b0123|||4"),
    "set its minimum above what each of them makes": ("a:RayCluster b:RayCluster", "a:RayCluster b:RayCluster",
        "min8 .a0123 .b0123 a0123b0123|||8"),
    "": ("a:RayCluster b:RayCluster=a", "a:RayCluster b:RayCluster=a", ".a0123 .b0123 -a0123 b0123|||4"),
}  # fmt: skip


@pytest.mark.parametrize(("advice", "case"), ADVICE.items(), ids=ADVICE)
def test_advice_for_two_runs_helps(advice: str, case: tuple[str, str, str]) -> None:
    owners, *follows = case
    story = Story(owners)
    story.tell(".a0123 .b0123")
    text = two_runs(story.cache.snapshot().gangs[G])
    assert advice in text
    assert ("parts of one gang" in text) == bool(advice)
    Story(follows[0]).tell(follows[1])


def test_what_is_remembered_of_gone_pods_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gang that has most loses the oldest; a run that has ended is not remembered."""
    monkeypatch.setattr(gangs, "_MOST_GONE", 2)
    story = Story("a:RayCluster")
    story.tell(".a01234 +a01234 =a012 -a012 a34|||2*")
    assert story.cache.gangs._gone == 2
    story.tell("-a34")
    assert story.cache.gangs._gone == 0
