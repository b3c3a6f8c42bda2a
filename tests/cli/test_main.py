"""The command line: its help, exact answers for people and machines, mistakes as sentences with exit code 2."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from cli.files import demo_settings, what_to_try
from cli.main import app
from extender.decision_log import RecordedPlan, encoded
from scoring.model import Policy
from scoring.plan import Plan
from scoring.plan import plan as make_plan
from tests.builders import gang, node, snapshot
from tests.cli.world import CLUSTER, EXAMPLES, MESH, as_json, refused, run, written
from tests.extender.scheduling.world import node_json, pod_json
from tests.liveness import LIVENESS_S

ROOT = EXAMPLES.parent


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return written(
        tmp_path, node_json("n1"), pod_json("a-0", gang="a"), pod_json("b-0", gang="b", cpu="9"), {"kind": "Service"}
    )


def test_plan_for_machines(cluster: Path) -> None:
    document = as_json("plan", cluster)
    [admitted], [waiting] = document["admitted"], document["waiting"]
    assert (document["order"], document["held"]) == ("weight", {})
    weight = {"omega_prime": 4.0, "exact": "4", "omega": 0.9820137900379085, "given": False}
    assert admitted == {
        **{"gang": "default/a", "rank": 1, "zone": "a", "score": None, "committed": False, "members": {"a-0": "n1"}},
        **{"state": "STARVING", "weight": weight},
    }
    assert (waiting["gang"], waiting["rank"], waiting["code"]) == ("default/b", None, "IMPOSSIBLE")
    assert waiting["reason"] == "netgang: the gang would not fit into the empty cluster"


NO_NETWORK = "warning: no network data, zones and room alone decide: "


def test_plan_for_people_is_a_line_for_each_gang(cluster: Path) -> None:
    result = run("plan", cluster)
    never = "the gang would not fit into the empty cluster "
    never += "(1 members at once fit in no allowed zone, even when it is empty)"
    assert [" ".join(line.split()) for line in result.stdout.splitlines()] == [
        "RANK GANG PLAN ZONE SCORE NODES OR WHY",
        "1 default/a admitted a – a-0 → n1",
        f"– default/b waiting – – {never}",
        "1 gang admitted, 1 waiting; order: weight",
    ]
    assert result.stderr == f"{NO_NETWORK}give --network MESH\n"


def test_plan_warns_of_a_mesh_of_other_nodes(cluster: Path, tmp_path: Path) -> None:
    assert run("plan", CLUSTER, "--network", MESH).stderr == ""
    assert f"{NO_NETWORK}no node of {cluster} is measured in {MESH}\n" == run("plan", cluster, "--network", MESH).stderr


@pytest.fixture
def decision() -> RecordedPlan:
    state = snapshot([node("n1")], [gang("older", 1, cpu="8", created_s=1.0), gang("heavy", 2, cpu="4", created_s=2.0)])
    before = Plan(version=-1)
    return RecordedPlan(10.0, Policy(), before, state, make_plan(state, Policy(), now_s=10.0, previous=before))


def test_recorded_decisions_are_made_again(decision: RecordedPlan, tmp_path: Path) -> None:
    log = tmp_path / "decisions.gz"
    log.write_bytes(2 * encoded(decision))
    said = run("plan", log)
    assert (said.exit_code, said.stderr) == (0, "all of 2 decisions come out as recorded\n")
    assert [line.split()[:3] for line in said.stdout.splitlines()[1:3]] == [
        ["1", "default/heavy", "admitted"],
        ["2", "default/older", "waiting"],
    ]
    log.write_bytes(encoded(decision) + encoded(msgspec.structs.replace(decision, made=decision.previous)))
    found = run("plan", log)
    assert (found.exit_code, found.stderr) == (1, "error: 1 of 2 decisions come out differently\n")
    assert "leave --network and --config away" in refused("plan", log, "--network", MESH)
    log.write_bytes(encoded(decision)[:-9])
    assert "no whole gzip file" in refused("plan", log)


@pytest.mark.parametrize("kind", ["Job.batch/v1", "PyTorchJob.kubeflow.org/v1", "RayCluster.ray.io/v1"])
def test_owners_in_a_file_want_the_pods_that_are_there(tmp_path: Path, kind: str) -> None:
    """Two owners of two pods each are one gang of four: none is read here that may want more."""
    what, _, version = kind.partition(".")
    owners = [{"apiVersion": version, "kind": what, "name": name, "uid": name, "controller": True} for name in "ab"]
    pods = [pod_json(f"{owner['name']}-{n}", gang="g", size=4, owner=owner) for owner in owners for n in "01"]
    assert as_json("plan", written(tmp_path, node_json("n1"), *pods))["admitted"]


@pytest.mark.parametrize(("parallelism", "starts"), [(2, True), (4, False)])
def test_jobs_of_the_file_count_as_in_the_service(parallelism: int, starts: bool, tmp_path: Path) -> None:
    """Two pods of each of two Jobs are one gang of four, unless each Job will have four by itself."""
    jobs, pods = list[Any](), list[Any]()
    for name in ("j1", "j2"):
        about = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": name, "uid": name}}
        jobs.append({**about, "spec": {"parallelism": parallelism, "completions": parallelism}})
        owner = {"kind": "Job", "apiVersion": "batch/v1", "name": name, "uid": name, "controller": True}
        for number in "01":
            pods.append(pod_json(f"{name}-{number}", gang="rl", size=4, owner=owner))
            pods[-1]["metadata"]["labels"]["batch.kubernetes.io/job-name"] = name
    path = written(tmp_path, node_json("n1"), *jobs, *pods, {"kind": "CronJob", "metadata": {}})
    assert bool(as_json("plan", path)["admitted"]) is starts


def test_files_that_cannot_be_used_are_named(cluster: Path, tmp_path: Path) -> None:
    """What else may be wrong with a cluster is in tests/extender/convert/test_decode.py."""
    missing, bad, mesh = tmp_path / "[no" / "such].json", tmp_path / "bad.json", tmp_path / "mesh.json"
    assert refused("plan", missing) == f"error: {missing}: No such file or directory\n"
    assert refused("plan", tmp_path) == f"error: {tmp_path}: Is a directory\n"
    bad.write_text("nodes:")
    said = "not a JSON List as `kubectl get nodes,pods -A -o json` prints: JSON is malformed"
    assert refused("plan", bad).startswith(f"error: {bad}: {said}")
    mesh.write_text('[{"source": "a", "target": "b"}, {"source": "a", "target": "b", "loss_ratio": 7}]')
    assert refused("plan", cluster, "--network", mesh).startswith(f"error: {mesh}: entry 1: loss_ratio: ")


def test_the_settings_count_for_plan(cluster: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("zone_label: rack")
    assert as_json("plan", cluster, "--config", settings)["waiting"][0]["code"] == "NO_ALLOWED_ZONE"
    nobody = run("plan", cluster, env={"NETGANG_SCHEDULER_NAMES": "other"}).stdout
    assert nobody == "0 gangs admitted, 0 waiting; order: weight\n"


BAD_SETTINGS = {  # case: (arguments, environment, what is said)
    "unknown name": ((), {"NETGANG_HOLDLIMIT_S": "3"}, "NETGANG_HOLDLIMIT_S"),
    "out of range": (("--port", "70000"), {}, "port = 70000 (from the command line)"),
    "no such cluster": (("--snapshot", "/no/such.json"), {}, "/no/such.json: No such file or directory"),
    "no such credentials": (("--kubeconfig", "/no/such"), {}, "kubeconfig /no/such: cannot be read"),
}


@pytest.mark.parametrize(("arguments", "env", "said"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_serve_refuses_bad_settings(arguments: tuple[str, ...], env: dict[str, str], said: str) -> None:
    assert said in refused("serve", *arguments, env=env)


def test_the_demo_is_the_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Outside a checkout, where its files are not, it says so."""
    settings = demo_settings(4321)
    assert (settings.snapshot, settings.port, settings.network.hard_ttl_s.delay) == (CLUSTER, 4321, None)
    lines = what_to_try(4321, still=True)
    assert "curl -s http://127.0.0.1:4321/filter -d @examples/requests/filter-case1.json" in lines
    assert all((EXAMPLES.parent / word[1:]).exists() for word in lines.split() if word.startswith("@"))
    monkeypatch.setattr("cli.files.EXAMPLES", tmp_path)
    assert "run `netgang demo` from a checkout" in refused("demo", "--port", "1")


# -- help ------------------------------------------------------------------------------------------------------------

PRINTS_NOTHING = {"serve", "demo", "simulate"}  # run until they are stopped; the simulator has its own options
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def test_the_commands_are_those_that_are_promised() -> None:
    """A new one is entered here and in docs/how-to/operate.md."""
    assert set(COMMANDS) == {
        *("queue", "explain", "jobs", "network", "plan", "what-if"),
        *("demo", "serve", "simulate", "doctor", "uninstall"),
    }
    text, said = (ROOT / "docs/how-to/operate.md").read_text(), run("--help").stdout
    assert [name for name in COMMANDS if f"netgang {name}" not in text or name not in said] == []
    assert "Example: netgang " in said


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_and_the_exit_codes(name: str) -> None:
    """As paragraphs, which a narrow terminal breaks anywhere: a line break of the source is none there."""
    said = run(*name.split(), "--help").stdout
    assert "Example: " in said
    assert "Exit code: 0 " in said
    assert all(one.help for one in COMMANDS[name].params)
    assert not any("\n" in paragraph for paragraph in COMMANDS[name].help.split("\n\n"))
    options = {option for one in COMMANDS[name].params for option in one.opts}
    assert "--json" in options or name in PRINTS_NOTHING
    if name in ("queue", "explain", "what-if", "jobs", "network"):
        assert {"--url", "--kubeconfig", "--context", "--service"} <= options


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["--help", "queue -n a -s waiting -o wide", "explain a/g", "jobs", "network"])
def test_a_table_costs_little_more_than_itself(arguments: str) -> None:
    """What decides is not imported for it, nor a second HTTP client, nor pydantic, by which typer reads options."""
    command = [sys.executable, "-X", "importtime", "-m", "cli.main", *arguments.split()]
    env = {**os.environ, "NETGANG_URL": "http://127.0.0.1:9"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIVENESS_S)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert ("cli.gangs" in imported, "Traceback" in done.stderr) == (True, False)
    assert imported & {"pydantic", "httpx", "yaml", "kubernetes", "numpy", "scoring.model", "scoring.plan"} == set()


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("--nonsense", 2)])
def test_a_command_ends_before_the_interpreter_does(argument: str, code: int) -> None:
    """pyreqwest's thread would abort the process in 3 of 100 short commands."""
    last = "last = type('Last', (), {'__del__': lambda self: print('interpreter ended')})()"
    command = [sys.executable, "-c", f"from cli.main import main; {last}; main()", argument]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=LIVENESS_S)
    assert (done.stdout.startswith(b"netgang "), b"interpreter ended" in done.stdout) == (code == 0, False)
    assert done.returncode == code


def test_an_answer_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-mcli.main", "--help"], cwd=ROOT, stdout=full, stderr=-1, timeout=9)
    assert (done.returncode, done.stderr) == (1, b"error: standard output: No space left on device\n")
