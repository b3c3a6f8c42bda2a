"""Check what users run: gangs of two schedulers, marks that contradict each other, gates that no controller opens."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from cli.doctor.facts import Budget
from cli.doctor.findings import Finding, error, some, warning
from extender.settings.settings import Settings
from scoring.model import GangSource, Pod

_NEVER = (0, "0", "0%")
_ALL = ("100%",)


def check_gangs(pods: Sequence[Pod], settings: Settings) -> Iterator[Finding]:
    """Members of gangs and pods at our gate. Cost: O(pods)."""
    live = [pod for pod in pods if not pod.terminal and not pod.deleting]
    names: defaultdict[str, set[str]] = defaultdict(set)  # gang → schedulers that its members name
    invalid: dict[str, str] = {}  # gang → what is wrong with its marks
    for pod in live:
        if pod.group is not None and pod.group.source is not GangSource.NATIVE:
            names[pod.group.key].add(pod.scheduler_name)
            if pod.group.problem:
                invalid.setdefault(pod.group.key or pod.key, pod.group.problem)
    ours = set(settings.scheduler_names)
    if mixed := [f"{gang} ({some(found)})" for gang, found in names.items() if len(found) > 1 and found & ours]:
        what = f"members of one gang name different schedulers: {some(mixed)}"
        yield error("gang-mixed", what, f"set one spec.schedulerName in all templates of the job: {some(ours)}")
    if invalid:
        gang = min(invalid)
        what = f"{len(invalid)} gangs can never start as they are marked; {gang}: {invalid[gang]}"
        yield error("gang-invalid", what, "change the labels or annotations in the job's templates as it says")
    if lost := [pod.key for pod in live if pod.gated and pod.scheduler_name not in ours]:
        what = f"pods of schedulers that are not netgang's wait at its gate, which no controller opens: {some(lost)}"
        fix = f"set schedulerName to one of {some(ours)}, or remove the gate netgang.io/gang from the template"
        yield error("gate-foreign", what, fix)
    if "default-scheduler" in ours:
        members = (pod for pod in live if pod.group is not None and pod.scheduler_name in ours)
        if eager := [pod.key for pod in members if pod.node is None and not pod.never_preempts]:
            what = f"gang pods may pre-empt, and would evict members of lighter gangs one by one: {some(eager)}"
            fix = "use a PriorityClass with `preemptionPolicy: Never` for jobs, or set it in the pods' spec"
            yield warning("gang-preempts", what, fix)


def check_pod_groups(pods: Sequence[Pod], *, served: bool, known: frozenset[str] | None) -> Iterator[Finding]:
    """The definition of PodGroup, and the objects that pods name. Cost: O(pods)."""
    named = {
        str(pod.group.key)
        for pod in pods
        if pod.group is not None
        and pod.group.source is GangSource.POD_GROUP
        and not pod.terminal
        and not pod.group.problem
    }
    if not named:
        return
    if not served:
        what = f"pods name PodGroups ({some(named)}), and the cluster has no PodGroup of scheduling.x-k8s.io/v1alpha1"
        fix = "install the CustomResourceDefinition podgroups.scheduling.x-k8s.io, or mark the pods with the two labels"
        yield error("podgroup-crd-missing", what, fix)
    elif known is not None and (absent := named - known):
        what = f"pods name PodGroups that do not exist: {some(absent)}; they wait until these do"
        yield warning("podgroup-missing", what, "create the PodGroup with its minMember, in the pods' namespace")


def check_budgets(budgets: Sequence[Budget], pods: Sequence[Pod]) -> Iterator[Finding]:
    """Budgets in namespaces with gangs, under which no member can ever be evicted. Cost: O(budgets + pods)."""
    places = {pod.namespace for pod in pods if pod.group is not None and not pod.terminal}
    blocking = [
        f"{one.namespace}/{one.name}"
        for one in budgets
        if one.namespace in places and one.expected > 0 and one.allowed == 0 and _never(one)
    ]
    if blocking:
        what = (
            f"budgets allow no eviction at all: {some(blocking)}; a gang that never became complete is not taken away"
        )
        fix = "give the PodDisruptionBudget a maxUnavailable of at least 1, or take it from training jobs"
        yield warning("budget-blocks-repair", what, fix)


def _never(budget: Budget) -> bool:
    if budget.max_unavailable is not None:
        return budget.max_unavailable in _NEVER
    return budget.min_available in _ALL or budget.min_available == budget.expected
