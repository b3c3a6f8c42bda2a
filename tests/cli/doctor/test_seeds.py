"""What is put wrong is found, by one finding that names its fix; a system as it should be has none."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cli.doctor.checks import Severity, examine
from cli.doctor.facts import Answered, Facts, LeaseSeen, Replica, ServiceAddress, scheduler_of
from extender.errors import ConfigError
from extender.schemas import AgentsAmiss, ProbeAgents
from extender.settings.settings import Settings, TlsSettings
from scoring import NO_ZONE
from scoring.model import Taint
from tests.builders import node
from tests.cli.doctor.installed import SETTINGS as SETTINGS_FILE
from tests.cli.doctor.installed import installed, look, plain_settings

Seed = Callable[[Facts], Facts]
HOST = "netgang.netgang-system.svc"
SETTINGS = Settings().changed({**plain_settings(), "host": "127.0.0.1"})
SERVICE = ServiceAddress("netgang", "netgang-system", 8888, "10.96.0.88")
ROLE = "node-role.kubernetes.io"
FILES = TlsSettings(Path("tls.crt"), Path("tls.key"), Path("ca.crt"), ("s",))
TLS = replace(SETTINGS, tls=FILES, health_port=8890)


@pytest.fixture(scope="module", autouse=True)
def seen_once() -> None:
    """Before a property is tried, which has no second to wait for a renewal."""
    system()


@cache
def system() -> Facts:
    """What is installed as it should be, with two nodes, a pod at the gate and a source that answers."""
    api = installed()
    api.edit(SETTINGS_FILE, lambda one: one["data"].update({"netgang.yaml": SHORT + one["data"]["netgang.yaml"]}))
    mapped = {"loss": {"mapped": 2, "unmapped": 0, "ambiguous": 0}}
    more = {"nodes": (node("n1"), node("n2", zone="b")), "gated": ("default/w-1",), "sources": {"maddash": None}}
    with ThreadPoolExecutor(1) as pool:  # the thread of the tests has an event loop of its own
        seen = pool.submit(asyncio.run, look(api).facts()).result()
    return replace(seen, endpoints=mapped, **more)


SHORT = "lease: {duration_s: 1}\n"  # so that it is renewed within a second


def with_scheduler(change: Callable[[dict[str, Any]], object]) -> Seed:
    def changed(seen: Facts) -> Facts:
        config = deepcopy(dict(system().scheduler or {}))
        change(config)
        return replace(seen, scheduler=config)

    return changed


def entry(number: int, **fields: Any) -> Seed:
    """One extender entry with some fields changed; `None` takes a field away."""

    def change(config: dict[str, Any]) -> None:
        one = config["extenders"][number]
        for name, value in fields.items():
            one.pop(name) if value is None else one.update({name: value})

    return with_scheduler(change)


def entries(host: str) -> Seed:
    return with_scheduler(lambda found: [one.update(urlPrefix=f"http://{host}") for one in found["extenders"]])


def config(**fields: Any) -> Seed:
    return with_scheduler(lambda found: found.update(fields))


def profile(**fields: Any) -> Seed:
    return with_scheduler(lambda found: found["profiles"][0].update(fields))


def facts(**fields: Any) -> Seed:
    return lambda seen: replace(seen, **fields)


def answered(problem: str | None = None, **fields: Any) -> Seed:
    return facts(answered=Answered("http://x", problem, **{"ready": True, **fields}))


def both(one: Seed, other: Seed) -> Seed:
    return lambda seen: other(one(seen))


def https(**fields: Any) -> Seed:
    def change(found: dict[str, Any]) -> None:
        for one in found["extenders"]:
            one |= {"urlPrefix": one["urlPrefix"].replace("http:", "https:"), "enableHTTPS": True, "tlsConfig": fields}

    return both(with_scheduler(change), facts(settings=TLS))


AMISS = AgentsAmiss(17, 1_800_000_000.0, ("n1", "n2"), "b")
NONE = AgentsAmiss(0, None, (), None)


def probed(**agents: AgentsAmiss) -> Seed:
    probe = ProbeAgents(**{"reporting": 19, "silent": NONE, "absent": NONE, "unanswered": NONE, **agents})  # type: ignore[arg-type]
    return answered(probe=probe)


UNREADY = Replica("a", ready=False, role="leader")
CONFINED = frozenset({"netgang-jobs", "netgang-pod-status"})
UNMAPPED = {"loss": {"mapped": 1, "unmapped": 2}, "delay": {"unmapped": 3}}
SEEDS: dict[str, tuple[Seed, str, str]] = {  # what is wrong: (how, id of the finding, words of its fix)
    "no extender": (config(extenders=[]), "extender-missing", "scheduler-config/"),
    "another address": (entry(0, urlPrefix="http://other.svc:8888"), "extender-verbs", "filterVerb: filter"),
    "no entry leads here": (entries("netgang:80"), "extender-url", "http://netgang.netgang-system.svc:8888"),
    "a port that is none": (entries("netgang:http"), "extender-url", "urlPrefix"),
    "a verb is missing": (entry(0, prioritizeVerb=None), "extender-verbs", "prioritizeVerb: prioritize"),
    "a verb of another name": (entry(0, filterVerb="predicates"), "extender-verbs", "filterVerb: filter"),
    "a verb that netgang has not": (entry(0, preemptVerb="preempt"), "extender-verbs", "remove preemptVerb"),
    "bind times out at the last Binding": (entry(1, httpTimeout="46s"), "bind-timeout", "httpTimeout: 60s"),
    "bind with kube-scheduler's own timeout": (entry(1, httpTimeout=None), "bind-timeout", "httpTimeout: 60s"),
    "bind with a timeout without a unit": (entry(1, httpTimeout="60"), "bind-timeout", "httpTimeout: 60s"),
    "a filter that may hang": (entry(0, httpTimeout="60s"), "filter-timeout", "httpTimeout: 2s"),
    "whole nodes are sent": (entry(0, nodeCacheCapable=False), "node-objects", "nodeCacheCapable: true"),
    "an ignorable binder": (entry(1, ignorable=True), "extender-ignorable", "ignorable: false"),
    "nodes are sampled by default": (config(percentageOfNodesToScore=None), "nodes-sampled", "ToScore: 100"),
    "the cluster's own Lease": (config(leaderElection={}), "scheduler-lease", "resourceName: netgang-scheduler"),
    "another profile": (profile(schedulerName="gangs"), "profile-name", "scheduler_names"),
    "pre-emption pod by pod": (profile(plugins={}), "preemption-on", "DefaultPreemption"),
    "https where there is none": (entry(0, urlPrefix=f"https://{HOST}:8888"), "extender-scheme", "http://"),
    "http where there are certificates": (facts(settings=TLS), "extender-scheme", "https://"),
    "netgang's certificate is not checked": (https(certFile="c", keyFile="k"), "extender-authority", "caFile"),
    "an account that nothing confines": (facts(confined=CONFINED), "unconfined", "helm upgrade"),
    "a right is missing": (facts(denied=(("create", "", "pods/binding"),)), "rights-missing", "helm upgrade"),
    "an older kube-scheduler": (facts(scheduler_version="1.35.4"), "scheduler-version", "v1.36"),
    "a newer kube-scheduler": (facts(scheduler_version="1.37.0"), "scheduler-version", "must not be newer"),
    "no replica is ready": (facts(replicas=(UNREADY,)), "not-running", "describe deployment"),
    "no Lease": (facts(lease=None), "leader-missing", "netgang-leader"),
    "a Lease without a holder": (facts(lease=LeaseSeen("", renewed=True)), "leader-missing", "netgang-leader"),
    "a leader that is silent": (facts(lease=LeaseSeen("a", renewed=False)), "leader-missing", "logs"),
    "no pod has the leader's label": (facts(replicas=(Replica("a", ready=True),)), "leader-label", "POD_NAME"),
    "no zone labels": (facts(nodes=(node("n1", zone=NO_ZONE),)), "zone-labels", "topology.kubernetes.io/zone=ZONE"),
    "a node without a zone": (facts(nodes=(node("n1"), node("n2", zone=NO_ZONE))), "zone-labels", "kubectl label node"),
    "a source that is down": (facts(sources={"maddash": "refused"}), "source-unreachable", "network.sources"),
    "silent agents": (probed(silent=AMISS), "probe-silent", "TCP 8891"),
    "agents that get no answer": (probed(unanswered=AMISS), "probe-unanswered", "UDP 8862"),
    "nodes without an endpoint": (facts(endpoints=UNMAPPED), "nodes-unmapped", "netgang network map"),
    "gated pods without netgang": (facts(replicas=()), "gates-stranded", "netgang uninstall"),
    "settings that are refused": (facts(settings_problems=("x: too many",)), "settings-invalid", "settings.md"),
    "no answer": (answered("http://x: refused"), "service-unreachable", "port-forward"),
    "it is not ready": (answered(ready=False, reasons=("pods are not read yet",)), "service-not-ready", "log"),
}  # fmt: skip


@pytest.mark.parametrize(("seed", "id_", "words"), SEEDS.values(), ids=SEEDS)
def test_what_is_put_wrong_is_found_with_its_fix(seed: Seed, id_: str, words: str) -> None:
    found = [one for one in examine(seed(system())) if one.id == id_]
    assert found
    assert any(words in one.fix for one in found), found
    assert all(one.severity is not Severity.NOTE for one in found)
    assert all(one.what and one.fix for one in found)


def test_one_mistake_is_one_finding() -> None:
    together = {
        "no entry leads here", "a port that is none", "http where there are certificates", "another address",
        "gated pods without netgang", "no replica is ready", "no Lease", "a Lease without a holder",
        "a leader that is silent",
    }  # fmt: skip
    several = {case for case, (seed, _, _) in SEEDS.items() if len(examine(seed(system()))) > 1}
    assert several <= together


WELL: dict[str, Seed] = {  # what is as it should be, though it looks otherwise
    "a control-plane machine without a zone": facts(
        nodes=(node("n1"), node("cp", zone=NO_ZONE, taints=[Taint(f"{ROLE}/control-plane", "", "NoSchedule")]))),
    "a metric that is not measured": facts(
        endpoints={"loss": {"mapped": 2, "unmapped": 0}, "throughput": {"mapped": 0, "unmapped": 2}}),
    "sampling that netgang knows of": both(
        config(percentageOfNodesToScore=10), facts(settings=replace(SETTINGS, sees_all_nodes=False))),
    "a foreign extender": with_scheduler(
        lambda found: found["extenders"].append({"urlPrefix": "http://topolvm:9251", "filterVerb": "predicate"})),
    "the whole name of the Service": entries(f"{HOST}.cluster.local:8888"),
    "the number of the Service: a static kube-scheduler resolves no names": both(
        entries("10.96.0.88:8888"), facts(service=SERVICE)),
    "a kube-scheduler that asks no extender": both(
        config(extenders=[]), facts(settings=replace(SETTINGS, extender=False))),
    "nothing was looked at": lambda seen: Facts(settings=seen.settings),
}  # fmt: skip


@pytest.mark.parametrize("seed", WELL.values(), ids=WELL)
def test_what_is_right_is_left_alone(seed: Seed) -> None:
    assert examine(seed(system())) == ()


def test_what_was_not_seen_is_a_note() -> None:
    [found] = examine(replace(system(), scheduler=None, unseen=("budgets: forbidden",)))
    assert (found.id, found.severity) == ("not-seen", Severity.NOTE)


@given(st.lists(st.sampled_from(sorted(SEEDS)), max_size=4))
def test_several_mistakes_are_several_findings_the_worst_first(cases: list[str]) -> None:
    seen = system()
    for case in cases:
        seen = SEEDS[case][0](seen)
    found = examine(seen)
    assert len(set(found)) == len(found)
    assert [one.severity for one in found] == sorted((one.severity for one in found), key=list(Severity).index)


def test_silent_agents_are_said_with_time_and_zone() -> None:
    [found] = examine(probed(silent=AMISS)(system()))
    assert found.what == ("17 of 36 agents are silent since 2027-01-15 08:00:00 UTC: n1, n2 and 15 more; all in zone b")


@pytest.mark.parametrize("text", ["a: [b", "just words", "[" * 999], ids=["no YAML", "words", "deep"])
def test_a_configuration_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"file x: "):
        scheduler_of(text, where="file x")
