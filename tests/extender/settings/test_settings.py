"""Settings: which layer wins, what is refused and in which words, and what the planner gets of them."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import ConfigError
from extender.settings.network import FileSource, MaddashSettings
from extender.settings.settings import Settings
from scoring.model.policy import Policy, Preempting, QueuePolicy, Ratios, Ttl

HERE = " (from the command line)"


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("NETGANG_")]:
        monkeypatch.delenv(name)


def _refusal(overrides: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        Settings.load(overrides=overrides)
    return str(caught.value)


def _network(**values: Any) -> dict[str, Any]:
    return {f"network.{name}": value for name, value in values.items()}


def _source(**values: Any) -> dict[str, Any]:
    return _network(sources=[values])


def _sum(hold: int, all_: int) -> str:
    parts = f"hold_limit_s ({hold}) + the wait for a Binding's turn (15) + the slowest Binding (6)"
    return f"{parts} + a margin of 1 s, together {all_}, must be below http_timeout_s"


MADDASH = {"kind": "maddash", "url": "http://maddash"}
NEAR, NONE = "no such setting; did you mean", "no such setting; there are"
RATIOS = "must be three numbers of at least 0, not all 0"
KINDS = "network.sources.0…: kind must be one of file, maddash, opensearch, prometheus"
URL = "network.sources.0.url = "
LABEL = "must be a Kubernetes label or annotation key"
REFUSED: dict[str, tuple[str, dict[str, Any]]] = {  # case: (beginning of the message, … is where from; values)
    "port above range": ("port = 70000…: must be less than or equal to 65535", {"port": 70000}),
    "debug port below range": ("debug_port = -1…: must be greater than or equal to 0", {"debug_port": -1}),
    "debug port is the port": ("debug_port = 9000…: must differ from port", {"port": 9000, "debug_port": 9000}),
    "debug host empty": ("debug_host = ''…: must have at least 1 character", {"debug_host": ""}),
    "port no number": ("port = 'http'…: must be a valid integer", {"port": "http"}),
    "near miss": ("prot…: no such setting; did you mean port?", {"prot": 1}),
    "nested near miss": (f"network.mappings…: {NEAR} mapping?", _network(mappings=[])),
    "no near one": (f"score.colour…: {NONE} bandwidth_weight, delay_weight", {"score.colour": "red"}),
    "negative duration": ("spill_wait_s = -1…: must be greater than or equal to 0", {"spill_wait_s": -1}),
    "infinite duration": ("hold_limit_s = inf…: must be a finite number", {"hold_limit_s": float("inf")}),
    "hold and commit reach the timeout": (f"{_sum(38, 60)} (60): ", {"hold_limit_s": 38.0}),
    "the slowest Binding comes too late": (f"{_sum(10, 32)} (25.5): ", {"hold_limit_s": 10.0, "http_timeout_s": 25.5}),
    "ratios no numbers": (f"score.ratios = 'a:b:c'…: {RATIOS}", {"score.ratios": "a:b:c"}),
    "ratios in YAML": (f"score.ratios = 74440…: {RATIOS}, such as '20:40:40', in quotes", {"score.ratios": 74440}),
    "ratios all zero": (f"score.ratios = '0:0:0'…: ratios {RATIOS}", {"score.ratios": "0:0:0"}),
    "weight NaN": ("score.loss_weight = nan…: must be a finite number", {"score.loss_weight": float("nan")}),
    "selection": ("selection = 'greedy'…: must be 'subset', 'paper' or 'pack'", {"selection": "greedy"}),
    "soft above hard": (
        "network…: soft_ttl_s.delay (9000) must not be above hard_ttl_s.delay (3600)",
        _network(soft_ttl_s={"delay": 9000}, hard_ttl_s={"delay": 3600}),
    ),
    "source without kind": (KINDS, _source(path="mesh.yaml")),
    "source of another kind": (KINDS, _source(kind="ftp")),
    "file source without path": ("network.sources.0.path: must be given", _source(kind="file")),
    "a user name": (f"{URL}'http://…@m'{HERE}: must be an http", _source(kind="maddash", url="http://me:pw@m")),
    "scheduler named twice": ("scheduler_names = 'a,a'…: must be different sche", {"scheduler_names": "a,a"}),
    "no scheduler": ("scheduler_names = []…: ", {"scheduler_names": []}),
    "zone label": (f"zone_label = 'my zone'…: {LABEL}", {"zone_label": "my zone"}),
    "distance to itself": ("zone_distance_ms…: names the distance from 'A' to", {"zone_distance_ms": {"A": {"A": 1}}}),
    "negative distance": ("zone_distance_ms.A.B = -1…: must be gr", {"zone_distance_ms": {"A": {"B": -1}}}),
    "election neither on nor off": ("leader_election = 'maybe'…", {"leader_election": "maybe"}),
    "election of a saved cluster": ("leader_election needs a live", {"leader_election": "on", "snapshot": "c.json"}),
    "parts of a second": ("lease.duration_s = 4.5", {"lease.duration_s": 4.5}),
    "saved and live cluster": ("snapshot and kubeconfig exclude each other", {"snapshot": "c.json", "kubeconfig": "k"}),
    "no `preemption: on`: it has to be said what leaves": ("preemption = 'on'", {"preemption": "on"}),
    "what only tests vary": ("elastic.metrics.every_steps…: no such setting", {"elastic.metrics.every_steps": 9}),
    "no worker at once": ("elastic.decrement = 0", {"elastic.decrement": 0}),
    "an unknown metric": ("elastic.metrics.default = 'gradient'", {"elastic.metrics.default": "gradient"}),
    "no limit at all": ("queue.starve_limit_s = 0", {"queue.starve_limit_s": 0}),
}


@pytest.mark.parametrize(("want", "values"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_names_setting_origin_value_and_what_is_accepted(want: str, values: dict[str, Any]) -> None:
    message = _refusal(values)
    assert message.startswith(want if HERE in want else want.replace("…", HERE))
    assert "\n" not in message
    assert "pydantic" not in message


def test_every_mistake_is_told_at_once() -> None:
    assert len(_refusal({"port": -1, "selection": "x", "hold_limit_s": 0}).splitlines()) == 3


def test_command_line_over_environment_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "netgang.yaml"
    file.write_text("port: 1\nmin_run_s: 11\nspill_wait_s: 3\nnetwork: {soft_ttl_s: 50, hard_ttl_s: 7000}\n")
    for name, text in {"PORT": "2", "MIN_RUN_S": "22", "NETWORK__SOFT_TTL_S": "60"}.items():
        monkeypatch.setenv(f"NETGANG_{name}", text)
    found = Settings.load(file, {"port": 3, "host": None})
    assert (found.port, found.min_run_s, found.spill_wait_s, found.host) == (3, 22.0, 3, "127.0.0.1")
    assert (found.network.soft_ttl_s.loss, found.network.hard_ttl_s.loss) == (60.0, 7000.0)


@pytest.mark.parametrize("layer", ["environment", "file"])
def test_a_refusal_says_where_the_value_was_set(layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "netgang.yaml"
    file.write_text("port: 70000\n" if layer == "file" else "")
    if layer == "environment":
        monkeypatch.setenv("NETGANG_PORT", "70000")
    with pytest.raises(ConfigError, match=r"^port = '?70000'? \(from (the environment|file .*netgang\.yaml)\): must"):
        Settings.load(file)


MESH_FILE = FileSource(Path("m.yaml"))
ENVIRONMENT = {  # case: (setting, expected value, text)
    "text": ("host", "0.0.0.0", "0.0.0.0"),
    "names with commas": ("scheduler_names", ("a", "b"), "a, b"),
    "debug port": ("debug_port", 9001, "9001"),
    "no debug port": ("debug_port", None, "null"),
    "nothing": ("network.soft_ttl_s", Ttl(None, None, None), "null"),
    "one for all metrics": ("network.hard_ttl_s", Ttl(60.0, 60.0, 60.0), "60"),
    "one metric": ("network.hard_ttl_s.delay", 60.0, "60"),
    "ratios": ("score.ratios", Ratios(1.0, 1.0, 2.0), "1:1:2"),
    "switch": ("sees_all_nodes", False, "false"),
    "switch in another word": ("elastic.enabled", True, "on"),
    "list as JSON": ("network.sources", (MESH_FILE,), '[{"kind": "file", "path": "m.yaml"}]'),
}


@pytest.mark.parametrize(("name", "want", "text"), ENVIRONMENT.values(), ids=ENVIRONMENT)
def test_every_kind_of_value_can_come_from_the_environment(
    name: str, want: object, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"NETGANG_{name.upper().replace('.', '__')}", text)
    assert want == attrgetter(name)(Settings.load())


BY_THE_KUBELET = "enableServiceLinks: false"  # how to stop that beside a Service named netgang it sets NETGANG_PORT, …
VARIABLES = {  # case: (variable, text, message)
    "misspelt": ("HOLD_LIMIT", "5", r"^NETGANG_HOLD_LIMIT: no such setting; did you mean hold_limit_s\?$"),
    "a list that is no JSON": (
        "NETWORK__SOURCES", "mesh.yaml", r"^network\.sources = 'mesh\.yaml' \(from the environment\): must be"
    ),
    "a Service's address": ("PORT", "tcp://10.0.0.1:8888", BY_THE_KUBELET),
    "a Service's host": ("SERVICE_HOST", "10.0.0.1", BY_THE_KUBELET),
    "a Service's port": ("PORT_8888_TCP_PORT", "1", BY_THE_KUBELET),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), VARIABLES.values(), ids=VARIABLES)
def test_a_variable_is_refused(name: str, text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"NETGANG_{name}", text)
    with pytest.raises(ConfigError, match=message):
        Settings.load()


def test_names_of_the_tests_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """NETGANG_KUBECTL and NETGANG_TESTBED_… are read elsewhere, and a test run must not trip over them."""
    for name in ("NETGANG_KUBECTL", "NETGANG_TESTBED_CACHE"):
        monkeypatch.setenv(name, "/somewhere")
    assert Settings() == Settings.load()


FILES = {  # case: (message, content)
    "not YAML": (r"settings file .*, line 1, is neither YAML nor JSON", b"port: [1"),
    "not text": (r"settings file .* is neither YAML nor JSON", b"\xff\xfe\x00"),
    "a list": (r"settings file .* must hold names and values", b"- port"),
    "number as name": (r"settings file .* must hold names and values", b"1: 2"),
    "missing": (r"settings file .* cannot be read: No such file", None),
}


@pytest.mark.parametrize(("want", "content"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_is_refused(want: str, content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "netgang.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=want):
        Settings.load(file)


def test_json_and_yaml_files_say_the_same_and_an_empty_one_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    assert Settings() == Settings.load(tmp_path / "empty.yaml")
    values = {"port": 1, "score": {"loss_weight": 5}, **{"network": {"sources": [MADDASH | {"url": "http://m/"}]}}}
    (tmp_path / "a.json").write_text(json.dumps(values))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values))
    settings = Settings.load(tmp_path / "a.json")
    assert settings == Settings.load(tmp_path / "a.yaml")
    assert (MaddashSettings("http://m/"),) == settings.network.sources


def test_the_policy_carries_every_choice() -> None:
    assert Policy() == Settings().policy()
    score = {"ratios": [1, 2, 3], "loss_weight": 5.0}
    plain = {"selection": "paper", "zone_policy": "preferred", "spill_wait_s": 7.0, "hold_limit_s": 3.0}
    ages = {"network.soft_ttl_s": 10, "network.hard_ttl_s": 20}
    policy = Settings.load(overrides={"score": score, **plain, **ages}).policy()
    assert {name: getattr(policy, name) for name in plain} == plain
    assert {name: getattr(policy.score, name) for name in score} == score | {"ratios": Ratios(1.0, 2.0, 3.0)}
    assert (policy.score.soft_ttl_s, policy.score.hard_ttl_s) == (Ttl(10.0, 10.0, 10.0), Ttl(20.0, 20.0, 20.0))
    given = {"order": "fifo", "starve_limit_s": 60.0, "backfill": False, "weight_namespaces": "a, b"}
    queue = Settings.load(overrides={"queue": given}).policy().queue
    assert {name: getattr(queue, name) for name in given} == given | {"weight_namespaces": {"a", "b"}}
    assert given.keys() == set(QueuePolicy.__struct_fields__) - QueuePolicy.fixed


WRITTEN = {  # case: (a line of the settings file; preemption and election that it means)
    "nothing": ("", (Preempting.LEVELS, False)),
    "preemption off": ("preemption: off", (Preempting.OFF, False)),
    "election on": ("leader_election: on", (Preempting.LEVELS, True)),
    "election true": ("leader_election: true", (Preempting.LEVELS, True)),
}


@pytest.mark.parametrize(("line", "meant"), WRITTEN.values(), ids=WRITTEN)
def test_words_that_yaml_misreads(tmp_path: Path, line: str, meant: tuple[object, ...]) -> None:
    (tmp_path / "settings.yaml").write_text(f"port: 8888\n{line}\n")
    settings = Settings.load(tmp_path / "settings.yaml")
    assert (settings.preemption, settings.leader_election) == meant
    assert settings.policy().preemption == meant[0]


TTLS = {  # case: (soft TTLs, hard TTLs, what is set)
    "defaults": (Ttl(5400.0, 5400.0, 93_600.0), Ttl(10_800.0, 10_800.0, 172_800.0), {}),
    "one number": (Ttl(10.0, 10.0, 10.0), Ttl(20.0, 20.0, 20.0), {"soft_ttl_s": 10, "hard_ttl_s": 20}),
    "never": (Ttl(None, None, None), Ttl(None, None, None), {"soft_ttl_s": None, "hard_ttl_s": None}),
    "only a short hard one": (Ttl(60.0, 60.0, 60.0), Ttl(60.0, 60.0, 60.0), {"hard_ttl_s": 60}),
    "one metric": (Ttl(5400.0, 5400.0, 7.0), Ttl(9e3, 10_800.0, 172_800.0),
                   {"soft_ttl_s": {"throughput": 7}, "hard_ttl_s": {"loss": 9000}}),
}  # fmt: skip


@pytest.mark.parametrize(("soft", "hard", "network"), TTLS.values(), ids=TTLS)
def test_ages_by_metric(soft: Ttl, hard: Ttl, network: dict[str, Any]) -> None:
    found = Settings.load(overrides={"network": network}).network
    assert (soft, hard) == (found.soft_ttl_s, found.hard_ttl_s)


ARCHIVE = {"kind": "opensearch", "url": "https://archive.example.org"}
METRICS_AT = {"kind": "prometheus", "url": "http://prometheus:9090"}
WRONG_SOURCES: dict[str, tuple[str, dict[str, Any]]] = {  # case: (what the refusal says, source)
    "no address": ("network.sources.0.url: must be given", {"kind": "opensearch"}),
    "a password in the settings": (f"0.password{HERE}: no such setting", {**ARCHIVE, "password": "hunter2"}),
    "a user without password": ("username and password_file belong together", ARCHIVE | {"username": "u"}),
    "two secrets": ("only one of password_file", ARCHIVE | {"username": "u", "password_file": "a", "token_file": "b"}),
    "credentials in the open": ("use https://", ARCHIVE | {"url": "http://a", "token_file": "A"}),
    "two kinds of trust": ("ca_file and insecure exclude", ARCHIVE | {"insecure": True, "ca_file": "a.pem"}),
    "nothing to ask": ("presets or queries must name something to ask", METRICS_AT),
    "no such preset": (
        f"network.sources.0.presets.0 = 'pingmesh'{HERE}: must be 'smokeping' or 'blackbox'",
        METRICS_AT | {"presets": ["pingmesh"]},
    ),
    "a unit of another metric": (
        f"network.sources.0.queries{HERE}: loss.unit must be one of ratio, percent, not ms",
        METRICS_AT | {"queries": {"loss": {"query": "x", "unit": "ms"}}},
    ),
}
# -- certificates and ports: what would leave a door open, or shut a probe out, is refused at once ---------------------

PAIR = {"cert_file": "a.crt", "key_file": "a.key"}
GUARDED = {**PAIR, "client_ca_file": "ca.crt"}
ANYWHERE = {"debug_port": 8889, "debug_host": "0.0.0.0"}
OPEN_DOORS: dict[str, tuple[str, dict[str, Any]]] = {  # case: (what the refusal says, settings)
    "a certificate without its key": ("give both, or none for plain HTTP", {"tls": {"cert_file": "a.crt"}}),
    "a key without its certificate": ("give both, or none for plain HTTP", {"tls": {"key_file": "a.key"}}),
    "authorities without TLS": ("client_ca_file needs cert_file", {"tls": {"client_ca_file": "ca.crt"}}),
    "names that nothing proves": ("client_names needs client_ca_file", {"tls": {**PAIR, "client_names": ["x"]}}),
    "too many names": ("must have at most 100 entries", {"tls": {**GUARDED, "client_names": ["x"] * 101}}),
    "an empty name": ("different names that are not empty", {"tls": {**GUARDED, "client_names": [""]}}),
    "a misspelt name": ("tls.certfile (from the command line): no such setting", {"tls": {"certfile": "x"}}),
    "probes that are shut out": ("give them a port of their own, such as 8890", {"tls": GUARDED}),
    "health at the verbs' port": ("health_port = 8888", {"health_port": 8888}),
    "health at people's port": ("health_port = 8889", {"health_port": 8889, "debug_port": 8889}),
    "every client reads": ("set debug_open: true", ANYWHERE),
    "bursts without agents": ("throughput.enabled needs enabled: true", {"probe": {"throughput": {"enabled": True}}}),
}  # fmt: skip
OPEN_DOORS |= {case: (want, _source(**source)) for case, (want, source) in WRONG_SOURCES.items()}


@pytest.mark.parametrize(("want", "values"), OPEN_DOORS.values(), ids=OPEN_DOORS)
def test_an_open_door_or_a_wrong_source_is_refused(want: str, values: dict[str, Any]) -> None:
    text = _refusal(values)
    assert want in text
    assert "hunter2" not in text


CLOSED_DOORS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "two free ports": {"port": 0, "debug_port": 0},
    "HTTPS": {"tls": PAIR},
    "client certificates": {"tls": GUARDED, "health_port": 8890},
    "names": {"tls": {**GUARDED, "client_names": "a, b"}, "health_port": 0},
    "open because a setting says so": {**ANYWHERE, "debug_open": True},
    "a host without a port": {"debug_host": "0.0.0.0"},
    "health without TLS": {"health_port": 0},
}


@pytest.mark.parametrize("values", CLOSED_DOORS.values(), ids=CLOSED_DOORS)
def test_a_closed_door_is_accepted(values: dict[str, Any]) -> None:
    """Each form that docs/how-to/operate.md names."""
    settings = Settings.load(overrides=values)
    assert all(getattr(settings, name) is not None for name in values)


@given(hold_s=st.floats(0.1, 1e3), timeout_s=st.floats(0.1, 1e3))
def test_a_held_bind_is_always_answered_before_the_scheduler_gives_up(hold_s: float, timeout_s: float) -> None:
    values = {"hold_limit_s": hold_s, "http_timeout_s": timeout_s}
    if hold_s + 15.0 + 6.0 + 1.0 < timeout_s:
        assert timeout_s == Settings.load(overrides=values).http_timeout_s
    else:
        assert "must be below http_timeout_s" in _refusal(values)


WORDS = st.sampled_from(
    sorted({*Settings.__struct_fields__, "sources", "kind", "url", "loss", "queries", "grids", "rules"})
)
LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["maddash", "file"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.integers() | st.none(), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, VALUES, max_size=3))
def test_whatever_a_file_holds_is_settings_or_refused(values: dict[str, Any]) -> None:
    with suppress(ConfigError):
        Settings().changed(values).policy()
