"""Elastic jobs in one line, for tests and doctests of scoring.scaling."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from scoring import Namespace
from scoring.model import Gang, Node, Phase, Role
from scoring.model.policy import Policy, QueuePolicy
from scoring.records import Point
from scoring.scaling.job import ElasticJob, JobKey, ReportHistory, Series, Wants
from tests.builders import bound, gang, node, pod

TRUSTING = Policy(queue=QueuePolicy(weight_namespaces=frozenset({Namespace("*")}), starve_limit_s=1800.0))
"""Weights are what the annotation says, so that an example can name them."""


def machines(text: str) -> list[Node]:
    """Nodes with their CPUs, as `n1:4 b1:2`: zone b for names with b, else zone a.

    >>> [(one.name, one.zone) for one in machines("n1:4 b1:2")]
    [('n1', 'a'), ('b1', 'b')]
    """
    parts = (one.split(":") for one in text.split())
    return [node(name, cpu=cpu, zone="b" if name.startswith("b") else "a") for name, cpu in parts]


def workers(
    name: str,
    nodes: Sequence[str | None],
    *,
    ps: str | None = None,
    least: int | None = None,
    cpu: str = "1",
    weight: Fraction | float = 1,
    **fields: Any,
) -> Gang:
    """A job that runs: worker i on nodes[i] (`None`: it waits), and perhaps a ps; it needs `least` pods, else one."""
    common: dict[str, Any] = {"gang": name, "cpu": cpu, **fields}
    members = [bound(pod(f"{name}-ps-0", role=Role.PS, index=0, **common), ps)] if ps else []
    common |= {"role": Role.WORKER, "phase": Phase.PENDING}
    for index, where in enumerate(nodes):
        one = pod(f"{name}-worker-{index}", index=index, **common)
        members.append(one if where is None else bound(one, where))
    return gang(
        name,
        members=members,
        min_member=least if least is not None else 1 + len(members) - len(nodes),
        options={"weight": str(Fraction(weight).limit_denominator(1000))},
        **fields,
    )


def waiting(
    name: str, size: int, *, weight: Fraction | float = 1, options: dict[str, str] | None = None, **fields: Any
) -> Gang:
    """A gang of `size` workers, none of which has a node."""
    asked = {"weight": str(Fraction(weight).limit_denominator(1000))} | (options or {})
    return gang(name, size, role=Role.WORKER, options=asked, **fields)


def elastic(
    of: Gang, *, least: int = 1, most: int | None = None, wanted: int | None = None, **fields: Any
) -> ElasticJob:
    """The job of a gang whose workers say their index; as many are wanted as there are."""
    name = of.key.partition("/")[2]
    indexes = {p.uid: p.index for p in of.members if p.role is Role.WORKER and p.index is not None}
    count = len(indexes) if wanted is None else wanted
    fields = {"refusal": None, "wants": Wants.OFF, "changed_s": None, "indexes": indexes, **fields}
    key, most = JobKey(Namespace("default"), "TFJob.kubeflow.org", name), max(count, least) if most is None else most
    return ElasticJob(key, f"uid-of-{name}", of.key, count, min_workers=least, max_workers=most, **fields)


def reported(*points: Point) -> Series:
    """What these reports come to; one that goes back undoes what was reported from its step on."""
    history = ReportHistory()
    for point in points:
        history.undo(point.step)
        history.add(point)
    return history.series()
