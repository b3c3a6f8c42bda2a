"""Every annotation, label, gate, resource and taint by which objects and netgang speak to each other."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from extender.convert.nodes import ENDPOINT_ANNOTATIONS, ZONE_LABEL
from extender.convert.pod import (
    INDEX_ANNOTATION,
    MIN_AVAILABLE_LABEL,
    MIN_MEMBER_ANNOTATIONS,
    NAME_ANNOTATIONS,
    NAME_LABEL,
    NUDGE_ANNOTATION,
    OWN_PREFIX,
    POD_GROUP_LABEL,
    ROLE_ANNOTATION,
)
from extender.signed_notes import NoteKind
from scoring.model import GATE, Role
from scoring.model.policy import BadLinks, Repair, Selection, ZonePolicy
from scoring.scaling.job import Wants


class Form(StrEnum):
    ANNOTATION = "annotation"
    LABEL = "label"
    GATE = "scheduling gate"
    TAINT = "taint"


class Use(StrEnum):
    """What it is for; the value is a heading."""

    GANG = "Marks of a gang"
    ASK = "Options of a gang"
    ELASTIC = "Options of an elastic job"
    SITE = "Places of nodes"
    OPERATOR = "Set by an operator"
    OURS = "Written by netgang"


class Word(msgspec.Struct, frozen=True):
    name: str
    form: Form
    on: str  # on which objects it counts
    use: Use
    values: str
    example: str
    text: str
    default: str = "none"  # what counts without it


def _one_of(choices: Iterable[str]) -> str:
    """The values of an enumeration, each in backquotes.

    >>> _one_of(["a", "b"])
    '`a`, `b`'
    """
    return ", ".join(f"`{one}`" for one in choices)


def _own(name: str) -> str:
    return OWN_PREFIX + name


_PODS: Final = "pod (template)"
_JOBS: Final = "the job, or its workers' template"
_A, _L = Form.ANNOTATION, Form.LABEL

_GANGS: Final = (
    Word(POD_GROUP_LABEL, _L, _PODS, Use.GANG, "name of a PodGroup of the namespace", "resnet",
         "The gang is that PodGroup, and its `minMember` the minimum."),
    Word(NAME_LABEL, _L, _PODS, Use.GANG, "any name", "resnet",
         "The gang's name, without a PodGroup; needs min-available, too."),
    Word(MIN_AVAILABLE_LABEL, _L, _PODS, Use.GANG, "whole number from 1", '"4"',
         "How many members must start together."),
    *(Word(name, _A, _PODS, Use.GANG, "any name", "resnet",
           "The gang's name, as Volcano and the training operator write it; a PodGroup of that name sizes it.")
      for name in NAME_ANNOTATIONS),
    *(Word(name, _A, _PODS, Use.GANG, "whole number from 1", '"4"',
           "Its minimum, where no PodGroup says it.") for name in MIN_MEMBER_ANNOTATIONS),
    Word(GATE, Form.GATE, _PODS, Use.GANG, "", "schedulingGates: [{name: netgang.io/gang}]",
         "The pod waits without attempts until its gang is admitted. The admission policy sets it, too."),
)  # fmt: skip

_ASKED: Final = (
    Word(_own("zones"), _A, _PODS, Use.ASK, "at most 64 zones, separated by commas", "D, C",
         "The gang may only go there; without `near` the first that has room is taken.", "all zones"),
    Word(_own("near"), _A, _PODS, Use.ASK, "a zone or a measurement endpoint", "D",
         "Where the job's users are: the nearest zone that has room is taken."),
    Word(_own("zone-policy"), _A, _PODS, Use.ASK, _one_of(ZonePolicy), "preferred",
         "One zone or nothing, or several after `spill_wait_s`.", "setting `zone_policy`"),
    Word(_own("selection"), _A, _PODS, Use.ASK, _one_of(Selection), "pack",
         "How nodes are chosen inside the zone.", "setting `selection`"),
    Word(_own("ratios"), _A, _PODS, Use.ASK, "three numbers with colons", '"20:40:40"',
         "Points for packet loss, one-way delay and throughput, in steps of 5 %.", "setting `score.ratios`"),
    Word(_own("weight"), _A, _PODS, Use.ASK, "a number or fraction of at least 0", '"5/2"',
         "ω′ of the gang, where `queue.weight_namespaces` allows it.", "computed"),
    Word(_own("repair"), _A, _PODS, Use.ASK, _one_of(Repair), "restart",
         "What happens when the started gang loses members.", "setting `repair.policy`"),
    Word(_own("bad-links"), _A, _PODS, Use.ASK, _one_of(BadLinks), "refuse",
         "Takes the nodes with the fewest [bad links](extender.md#score-of-a-link), or waits for others.", "avoid"),
    Word(_own("preemptible"), _A, _PODS, Use.ASK, _one_of(("true", "false")), '"false"',
         "Whether a gang of higher priority may preempt the gang.", "true"),
    Word(_own("suspendable"), _A, _PODS, Use.ASK, _one_of(("true", "false")), '"true"',
         "With `preemption: levels`: whether the gang may be suspended for one that has had less of the cluster.",
         "`\"false\"`"),
    Word(_own("expected-duration"), _A, _PODS, Use.ASK, "a duration such as `90m` or `2d`, or seconds", '"1h30m"',
         "How long the gang runs (docs/explanation/queue.md#back-fill-by-end-times); it counts on the job, too."),
    Word(ROLE_ANNOTATION, _A, _PODS, Use.ASK, _one_of(Role), "ps",
         "The pod's role in its job.", "from the framework's labels"),
    Word(INDEX_ANNOTATION, _A, _PODS, Use.ASK, "whole number from 0", '"3"',
         "The member's index in its job: the highest leaves first.", "from the framework's labels"),
)  # fmt: skip

_ELASTIC: Final = (
    Word(_own("min-workers"), _A, _JOBS, Use.ELASTIC, "whole number", '"2"',
         "Fewest workers; makes kinds without a minimum of their own elastic.",
         "the kind's own field"),
    Word(_own("max-workers"), _A, _JOBS, Use.ELASTIC, "whole number", '"8"',
         "Most workers.", "the kind's own field, or what it was submitted with"),
    Word(_own("scaling"), _A, _JOBS, Use.ELASTIC, _one_of(Wants), "loss",
         "By which metric the job demands another number of workers.", "setting `elastic.metrics.default`"),
    Word(_own("fixed"), _A, "JobSet", Use.ELASTIC, "names of replicated Jobs, separated by commas", "ps",
         "These are no workers; exactly one replicated Job must remain."),
)  # fmt: skip

_SITE: Final = (
    Word(ZONE_LABEL, _L, "node", Use.SITE, "any name", "D",
         "The node's zone; the setting `zone_label` names another label.", "the zone without a name"),
    Word(ENDPOINT_ANNOTATIONS, _A, "node (a label counts, too)", Use.SITE, "an endpoint by id, name or address",
         "ps-d1.example.org", "The node's end in all measurements.",
         "mapped by rules, names and addresses"),
    *(Word(f"{ENDPOINT_ANNOTATIONS}-{metric}", _A, "node (a label counts, too)", Use.SITE, "as above",
           "ps-d1.example.org", f"The same for {metric} alone.", "as above")
      for metric in ("loss", "delay", "throughput")),
    Word(_own("testpoint"), _L, "node", Use.SITE, "`true`", '"true"',
         "Nodes on which the perfSONAR testpoints of examples/perfsonar run (docs/how-to/measurements.md)."),
)  # fmt: skip

_OPERATOR: Final = (
    Word(_own("schedule"), _L, "namespace", Use.OPERATOR, "`true`", '"true"',
         "With `scheduler.namespaces` of the chart: new gang pods of the default scheduler get netgang's scheduler."),
    Word(_own("gangs"), _L, "namespace", Use.OPERATOR, "`native`", "native",
         "With the chart's mode `native`: new pods with `spec.schedulingGroup` wait at the gate."),
)  # fmt: skip

_WRITTEN: Final = (
    Word(NUDGE_ANNOTATION, _A, "waiting pod", Use.OURS, "a number that changes", '"7"',
         "Makes kube-scheduler try a parked pod again."),
    Word(NoteKind.ADMITTED, _A, "admitted pod", Use.OURS, "a node, signed", "node28 hmac1.x8Jq…",
         "The planned node; a restarted netgang keeps the commitment."),
    Word(NoteKind.PREEMPTS, _A, "pods of a waiting gang", Use.OURS, "JSON, signed", "{…} hmac1.x8Jq…",
         "The reservation of the gang while others leave, and since when."),
    Word(_own("restart"), _L, "owner of a gang", Use.OURS, "`suspended`", "suspended",
         "netgang has suspended it and will resume it."),
    Word(NoteKind.RESUME, _A, "owner of a gang", Use.OURS, "JSON, signed", "{…} hmac1.x8Jq…",
         "What netgang will resume, and why. Without it the owner stays suspended."),
    Word(NoteKind.RESTARTS, _A, "owner of a gang", Use.OURS, "Unix seconds, signed", "1764000000 hmac1.x8Jq…",
         "When the gang was restarted; at most three in an hour."),
    Word(NoteKind.ATTAINED, _A, "owner of a gang", Use.OURS, "JSON, signed", "{…} hmac1.x8Jq…",
         "What the gang had of the cluster before it was suspended last, and what was left, in cluster-hours."),
    Word(NoteKind.LAST_CHANGE, _A, "elastic job", Use.OURS, "JSON, signed", "{…} hmac1.x8Jq…",
         "The last change of its worker count: from, to, when, why, for which gang."),
    Word(_own("role"), _L, "netgang's own pods", Use.OURS, "`leader`", "leader",
         "The Service leads to the pod that has it."),
    Word(_own("network-degraded"), Form.TAINT, "node", Use.OURS, "an effect", "NoSchedule", "Its network is bad."),
)  # fmt: skip

VOCABULARY: Final = (*_GANGS, *_ASKED, *_ELASTIC, *_SITE, *_OPERATOR, *_WRITTEN)  # all of them, use by use
