"""Pages of words: annotations and labels, reasons, states, Events, metrics. Each from where the code defines them."""

from enum import Enum

from extender.controllers.elastic.jobs.views import NotNow
from extender.controllers.elastic.kinds.seen import State, Unsafe
from extender.controllers.elastic.records import Stage
from extender.controllers.events.recorder import _ACTIONS, _NORMAL, ANNOUNCE_S, REPEAT_S, REPORTER, Happening
from extender.controllers.owners.failure_budget import Refusal
from extender.controllers.removal.disruptions import MOST_TOLD
from extender.convert.wire import INTERNAL_ERROR
from extender.runtime.telemetry import Telemetry
from extender.server.dispatch import DEBUG_BINDS_NOTHING
from scoring.explain.podgroup_status import GroupPhase
from scoring.model.reasons import Reason
from scoring.queue.states import JobState
from scoring.scaling.reasons import No
from tests.contract.reference_text import code, members, table, told
from tests.contract.vocabulary import VOCABULARY, Use

_ANNOTATIONS = """# Annotations, labels, gates

Every word by which objects and netgang speak to each other, from `tests/contract/vocabulary.py`. An annotation
`netgang.io/…` that is not here is told in the Event OptionIgnored and in `/v1/explain`, and so is a value that is not
understood; what stands under "without it" then counts. Those that netgang writes for itself are signed
([notes](notes.md)): one of somebody else's is ignored, with Event NoteIgnored. Which gang mark wins where a pod has
several is in [concepts](../start/concepts.md).
"""
_REASONS = """# Reasons

The closed set of sentences for which netgang says no (`scoring/model/reasons.py`). Each is constant, so that
kube-scheduler does not try again for a text that has changed: names and numbers are in `netgang explain`, Events and
the log. They stand in kube-scheduler's words about the pod (`kubectl describe pod`: "0/36 nodes are available: 36
netgang: …"), in `/v1/plan`, `/v1/queue` and `/v1/explain` (`reason`, and the name as `code`), as metric label `reason`,
in the log.
"""
_STATES = """# States

What `/v1/queue`, `/v1/explain`, `/v1/jobs`, PodGroups and Events call the states of gangs and jobs, and the closed
sets of sentences for which a job keeps its size or a pod its place. Why a gang is refused: [reasons.md](reasons.md).
"""
_EVENTS = f"""# Events

What netgang tells by Kubernetes Events (events.k8s.io/v1, `reportingController: {REPORTER}`). The same
thing is told of an object once in {REPEAT_S / 60:.0f} minutes. `kubectl get events -A` shows them.

Nothing is taken away unannounced. Before each eviction, suspension, resumption and scale-in the API server has
confirmed the Event that says why: `GangEvicted`, `Repinned`, `GangRestarted`, `GangResumed` or `JobShrunk`, on the pod
and on its controller. When an owner is changed, its Event says how many pods go, and the first {MOST_TOLD} of them have
one of their own. If the API server does not answer within {ANNOUNCE_S:g} s, or with 429 or 5xx, the act is put off
and tried again later; if it refuses the Event for good (no right, a quota on Events), that is logged and the act goes
on. `netgang_announcements_total{{outcome}}` counts `posted`, `put_off` and `refused`. netgang deletes no pods, and
nothing that it did not make itself. What was announced and then refused has Event `DisruptionRefused`.

Nothing depends on any other Event: what finds no room in a short queue is counted in `netgang_events_dropped_total` and
forgotten.

"""
_METRICS = """# Metrics

What `/metrics` exposes in Prometheus' text format. No label holds the name of a pod, node or gang, so the number of
series is bounded. Counters and histograms without a label also have a series `…_created`, when they began to count.
Alerts on them are in [operations](../how-to/operations.md#alerts).

"""


def annotations_page() -> str:
    """docs/reference/annotations.md as it must be."""
    text = _ANNOTATIONS
    head = ("name", "what", "on", "values", "without it", "example", "")
    for use in Use:
        rows = [
            (code(one.name), one.form, one.on, one.values, one.default, code(one.example), one.text)
            for one in VOCABULARY
            if one.use is use
        ]
        text += f"\n## {use}\n\n{table(head, rows)}"
    return text


def reasons_page() -> str:
    """docs/reference/reasons.md as it must be."""
    text, group = _REASONS, ""
    rows: list[tuple[str, ...]] = []
    head = ("reason", "code", "what it means", "what to do")
    for one in (*told(Reason), None):
        if rows and (one is None or one.group != group):
            text += f"\n## {group}\n\n{table(head, rows)}"
            rows = []
        if one is not None:
            group = one.group
            rows.append((Reason[one.name].value, code(one.name), *one.paragraphs))
    others = (
        (INTERNAL_ERROR, "a bug of netgang's own; the pod is tried again", "report it with the log"),
        ("netgang: malformed request: …", "what came is no extender/v1 request", "who calls it? compare the versions"),
        (DEBUG_BINDS_NOTHING, "/bind was called by a person", "nothing; see [the extender](extender.md)"),
    )
    return f"{text}\n## Other answers of the verbs\n\n{table(('text', 'what it means', 'what to do'), others)}"


def states_page() -> str:
    """docs/reference/states.md as it must be."""

    def part(title: str, *sets: type[Enum], head: tuple[str, str] = ("state", "")) -> str:
        rows = [(code(value), about) for one in sets for value, about in members(one)]
        return f"\n## {title}\n\n{table(head, rows)}"

    def sentences(title: str, *sets: type[Enum]) -> str:
        lines = [f"- {value}\n" for one in sets for value, _ in members(one)]
        return f"\n## {title}\n\n{''.join(lines)}"

    return (
        _STATES
        + part("A gang in the queue", JobState)
        + part("`status.phase` of a PodGroup", GroupPhase)
        + part("An elastic job", State)
        + part("A change of a job's size", Stage)
        + sentences("It is not resized, because …", Unsafe, NotNow)
        + sentences("Nobody shrinks, or this job keeps its size, because …", No)
        + sentences("The pod is not removed, because …", Refusal)
    )


def events_page() -> str:
    """docs/reference/events.md as it must be."""
    rows = [
        (
            code(Happening[one.name].value),
            "Normal" if Happening[one.name] in _NORMAL else "Warning",
            code(_ACTIONS[Happening[one.name]]),
            *one.paragraphs,
        )
        for one in told(Happening)
    ]
    return _EVENTS + table(("reason", "type", "action", "on which object", "what it says"), rows)


def metrics_page() -> str:
    """docs/reference/metrics.md as it must be."""
    registry = Telemetry().registry
    labels = {
        names[0]: ", ".join(map(code, getattr(collector, "_labelnames", ())))
        for collector, names in registry._collector_to_names.items()
        if names
    }
    rows = [
        (
            code(f"{one.name}_total" if one.type == "counter" else one.name),
            one.type,
            labels.get(one.name, ""),
            one.documentation,
        )
        for one in registry.collect()
    ]
    return _METRICS + table(("metric", "type", "labels", ""), rows)
