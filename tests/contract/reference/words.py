"""Pages of words: annotations and labels, reasons, states, Events, metrics. Each from where the code defines them."""

from enum import Enum
from itertools import groupby

from extender.controllers.elastic.kinds import NotNow, Unsafe
from extender.controllers.elastic.records import Stage
from extender.controllers.failure_budget import WhyKept
from extender.controllers.recorder import ANNOUNCE_S, REPEAT_S, REPORTER, Happening
from extender.controllers.removals import MOST_ANNOUNCED
from extender.convert.wire import INTERNAL_ERROR
from extender.runtime.telemetry import Telemetry
from extender.server.app import DEBUG_BINDS_NOTHING
from scoring.model.reasons import CauseReason, Reason
from scoring.queue.states import CONDITION, GroupPhase, JobState
from scoring.scaling.job import No
from tests.contract.docs.vocabulary import VOCABULARY, Use
from tests.contract.reference.text import code, members, table, told

_ANNOTATIONS = """# Annotations, labels, gates

An unknown annotation `netgang.io/…` or value gets Event ProbableMistake and a line in `/v1/explain`; the value under
"without it" then counts. A label that looks like one of these and is none, and a schedulerName that is not netgang's on
pods that are marked as a gang's, get Event ProbableMistake, once for each owner; with the chart's warnings
`kubectl apply` warns of them, and of jobs that can never start: a minimum above the number of pods,
marks on the job instead of its pods, roles without requests, `suspend: true`. Annotations that netgang reads again are
[signed](objects.md#signed-notes). Which mark of a gang wins is in [concepts](../start/concepts.md#words).
"""
_REASONS = """# Reasons

The closed set of sentences with which netgang refuses. They are constant, because kube-scheduler tries a pod again when
its text changes; names and numbers are in `netgang explain`, Events and the log. They appear in `kubectl describe pod`
("0/36 nodes are available: 36 netgang: …"), in `/v1/plan`, `/v1/queue` and `/v1/explain` (`reason`, and `code`), as
metric label `reason`, and in the log.
"""
_CAUSES = """Why a gang waits, found when `/v1/explain` is asked (`cause.reason`) or an Event is written: `GangWaiting`
and `GangStuck` have its sentence, with names and numbers, and what helps. Where there is nothing more to say than the
reason above, the cause is that one, such as `BadLinks`.
"""
_STATES = """# States

States of gangs, PodGroups and jobs in `/v1/queue`, `/v1/explain`, `/v1/jobs` and Events, and why a job keeps its size
or a pod its place. Why a gang is refused: [reasons](reasons.md).
"""
_CONDITION = f"""
## Condition `{CONDITION}` of a pod

`kubectl describe pod` shows it on members of gangs that wait, or had to. A pod whose gang started at once has none:
`kubectl wait --for=condition=PodScheduled pod …` waits for all alike.

| status | reason | message |
|---|---|---|
| `True` | `Admitted` | The gang was admitted and the pod has its node. |
| `False` | a [cause](reasons.md#causes), such as `NodesUnavailable` | Why the gang waits, as in its Event. |

It is written once a reason has stood for 5 s, and again only when status or reason change: a patch of `pods/status` for
each pod and reason, and one for the admission that follows, at most 20 a second in all. A pod that changes its reason
again and again is written after 15 s, 30 s, … 10 min. A write wakes a pod that waits in kube-scheduler: one more
`/filter` call for each pod and reason, none at a gate.

The PodGroup's status that netgang writes (coscheduling's definition) has no field for a message: its Events have it
(`kubectl describe podgroup`).
"""
_EVENTS = f"""# Events

Kubernetes Events of netgang (events.k8s.io/v1, `reportingController: {REPORTER}`), at most one alike per object in
{REPEAT_S / 60:.0f} minutes. `kubectl get events -A` shows them. Each Event on a gang's PodGroup is also on the
controller of its pods (Job, PyTorchJob, …). Gangs of other namespaces are counted and not named.

Before each eviction, suspension, resumption and scale-in the API server has confirmed the Event with the reason:
`PodEvicted`, `GangRestarted` or `JobResized`, on the pod and on its controller. An owner's
Event has the number of pods that go; the first {MOST_ANNOUNCED} of them get their own. Without an answer in
{ANNOUNCE_S:g} s, or after a 429 or 5xx, the act is put off; if Events are refused for good, that is logged and the act
continues. An announced act that is then refused gets Event
`DisruptionFailed`.

Other Events are dropped when their queue is full (`netgang_events_dropped_total`).

"""
_METRICS = """# Metrics

`/metrics` in Prometheus' text format. No label holds the name of a pod, node or gang. Counters and histograms without a
label also have a series `…_created`; `process_…` are those of Prometheus' client. What to watch is in
[operations](../how-to/operate.md#alerts).

"""
_WORD_HEAD = ("name", "kind", "on", "values", "without it", "example", "")
_MAY_BE_ALIKE = (1, 2, 4)  # columns that are said once where all rows have the same


def annotations_page() -> str:
    text = _ANNOTATIONS
    for use in Use:
        words = [it for it in VOCABULARY if it.use is use]
        rows = [(code(it.name), it.form, it.on, it.values, it.default, code(it.example), it.text) for it in words]
        alike = [number for number in _MAY_BE_ALIKE if len({row[number] for row in rows}) == 1]
        said = "; ".join(f"{_WORD_HEAD[number]}: {rows[0][number]}" for number in alike if rows[0][number] != "none")
        kept = [number for number in range(len(_WORD_HEAD)) if number not in alike]
        text += f"\n## {use}\n\n" + (f"{said[:1].upper()}{said[1:]}.\n\n" if said else "")
        text += table([_WORD_HEAD[number] for number in kept], [[row[number] for number in kept] for row in rows])
    return text


def reasons_page() -> str:
    text, head = _REASONS, ("reason", "code", "what it means", "what to do")
    for group, those in groupby(told(Reason), lambda one: one.group):
        rows = [(Reason[one.name].value, code(one.name), *one.paragraphs) for one in those]
        text += f"\n## {group}\n\n{table(head, rows)}"
    others = (
        (INTERNAL_ERROR, "a bug of netgang; the pod is tried again", "report it with the log"),
        ("netgang: malformed request: …", "the request is not extender/v1", "find the caller; compare the versions"),
        (DEBUG_BINDS_NOTHING, "/bind was called by a person", "nothing; see [the extender](extender.md)"),
    )
    causes = [(code(value), about) for value, about in members(CauseReason)]
    return (
        f"{text}\n## Other answers of the verbs\n\n{table(('text', 'what it means', 'what to do'), others)}"
        f"\n## Causes\n\n{_CAUSES}\n{table(('cause', 'what it means'), causes)}"
    )


def states_page() -> str:
    def part(title: str, states: type[Enum]) -> str:
        return f"\n## {title}\n\n{table(('state', ''), [(code(value), about) for value, about in members(states)])}"

    def sentences(title: str, *sets: type[Enum]) -> str:
        lines = [f"- {value}\n" for one in sets for value, _ in members(one)]
        return f"\n## {title}\n\n{''.join(lines)}"

    return (
        _STATES
        + part("A gang in the queue", JobState)
        + part("`status.phase` of a PodGroup", GroupPhase)
        + _CONDITION
        + part("A change of a job's size", Stage)
        + sentences("It is not resized, because …", Unsafe, NotNow)
        + sentences("No job shrinks, or this job keeps its size, because …", No)
        + sentences("The pod is not removed, because …", WhyKept)
    )


def events_page() -> str:
    rows = []
    for one in told(Happening):
        what, (where, said) = Happening[one.name], one.paragraphs[0].split(". ", 1)
        rows.append((code(what.value), what.type, code(what.action), f"{where}.", said))
    return _EVENTS + table(("reason", "type", "action", "on which object", "what it says"), rows)


def metrics_page() -> str:
    registry = Telemetry().registry
    labels = {
        names[0]: ", ".join(map(code, getattr(collector, "_labelnames", ())))
        for collector, names in registry._collector_to_names.items()
        if names
    }
    own = [one for one in registry.collect() if not one.name.startswith("process_")]
    names = [code(f"{one.name}_total" if one.type == "counter" else one.name) for one in own]
    rows = [(name, one.type, labels.get(one.name, ""), one.documentation) for name, one in zip(names, own, strict=True)]
    return _METRICS + table(("metric", "type", "labels", ""), rows)
