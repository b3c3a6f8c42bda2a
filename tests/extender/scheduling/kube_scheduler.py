"""The parts of kube-scheduler that matter to an extender, as far as 1.36.3 was measured.

A queue with three ways to wait: refused by the extender (only an update of the pod itself wakes it: what happens inside
netgang is no event), refused by its own filters (a change of nodes or of who is on them wakes it), and failed (by timer
alone). It counts what it has assumed as taken, asks bind without waiting for the answer, and honours errors. After each
try that failed it writes the condition PodScheduled: a netgang that has just begun knows by nothing else who sleeps.
"""

from collections import Counter
from typing import Any

from extender.convert.wire import Failed, Passed, Refused
from extender.kube.calls import NODES, PODS
from scoring.model.pod import parse_quantity
from tests.extender.scheduling.world import Call, World, listed

LONGEST_BACKOFF_S = 10.0


def millicores(pod: dict[str, Any]) -> int:
    return sum(
        parse_quantity(one["resources"]["requests"]["cpu"], millis=True)
        for one in pod["spec"].get("containers", [])
        if "requests" in one.get("resources", {})
    )


def listed_nodes(pod: dict[str, Any]) -> set[str] | None:
    """The nodes that a pod's required affinity names, as an admission writes it; `None`: all."""
    return listed(pod) if pod["spec"].get("affinity") is not None else None


class KubeScheduler:
    def __init__(self) -> None:
        self.late: set[str] = set()  # pods that do not come to the extender now: their volumes are being made, say
        self.calls: dict[str, Call] = {}  # uid → its bind call under way
        self._parked: dict[str, str] = {}  # uid → the pod's resourceVersion when the extender refused it
        self._hopeless: dict[str, object] = {}  # uid → what nodes and pods were like when no node passed
        self._due_s: dict[str, float] = {}
        self._errors: Counter[str] = Counter()
        self._assumed: dict[str, tuple[str, int]] = {}  # uid → node and millicores, from the bind call until it is seen

    def step(self, world: World) -> None:
        pods = {pod["metadata"]["uid"]: pod for pod in objects(world, PODS)}
        self._take_answers(world, pods)
        for uid, pod in sorted(pods.items()):
            ours = pod["spec"]["schedulerName"] == "netgang"
            waits = not pod["spec"].get("nodeName") and not pod["spec"].get("schedulingGates")
            if ours and waits and "deletionTimestamp" not in pod["metadata"]:
                self._try(world, uid, pod, pods)

    def _take_answers(self, world: World, pods: dict[str, Any]) -> None:
        for uid, call in list(self.calls.items()):
            if call.waits:
                continue
            del self.calls[uid]
            if call.answer is None:
                assert uid not in pods or pods[uid]["spec"].get("nodeName") == call.node, "success that is none"
                self._errors.pop(uid, None)
            else:
                self._assumed.pop(uid, None)
                self._fail(uid, world, pods.get(uid))
        # A pod is assumed until it is seen on its node, or seen to be gone; its call may stay open then.
        for uid in [uid for uid in self._assumed if uid not in pods or pods[uid]["spec"].get("nodeName")]:
            del self._assumed[uid]

    def _fail(self, uid: str, world: World, pod: dict[str, Any] | None) -> None:
        self._errors[uid] += 1
        self._due_s[uid] = world.now_s + min(2.0 ** (self._errors[uid] - 1), LONGEST_BACKOFF_S)
        if pod is not None and not pod["spec"].get("nodeName"):
            self._written(world, pod, "SchedulerError", "the extender failed")

    def _written(self, world: World, pod: dict[str, Any], reason: str, message: str) -> str:
        """Write why the pod got no node; the pod's resourceVersion after it.

        With kube-scheduler such a write wakes the pod once; here it does not, so that nothing counts on that.
        """
        metadata = pod["metadata"]
        said = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        patch = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [said]}}
        after = world.api.store.conditions_patch(PODS, metadata["namespace"], metadata["name"], patch)
        return str(after["metadata"]["resourceVersion"])

    def _try(self, world: World, uid: str, pod: dict[str, Any], pods: dict[str, Any]) -> None:
        name, version = pod["metadata"]["name"], pod["metadata"]["resourceVersion"]
        waits = name in self.late or uid in self.calls or self._due_s.get(uid, 0.0) > world.now_s
        if waits or self._parked.get(uid) == version:
            return
        look = tuple(sorted(self._free(world, pods).items()))
        if self._hopeless.get(uid) == look:
            return
        asked, listed = millicores(pod), listed_nodes(pod)
        nodes = [node for node, amount in look if amount >= asked and (listed is None or node in listed)]
        if not nodes:
            self._hopeless[uid] = look
            full = sum(amount < asked for _, amount in look)
            others = f"{len(look) - full} node(s) didn't match Pod's node affinity/selector"
            said = f"0/{len(look)} nodes are available: {full} Insufficient cpu, {others}."
            self._written(world, pod, "Unschedulable", said)
            return
        answer = world.filter(name, nodes=nodes)
        if isinstance(answer, Failed):
            self._fail(uid, world, pod)
        elif isinstance(answer, Passed) and answer.names:
            scores = world.scores(name, nodes=answer.names)
            node = max(sorted(scores), key=lambda one: scores[one])
            self._parked.pop(uid, None)
            self._assumed[uid] = (node, asked)
            self.calls[uid] = world.bind(name, node)
        else:
            why = answer.reason if isinstance(answer, Refused) else "no node passed"
            said = f"0/{len(nodes)} nodes are available: {len(nodes)} {why}."
            self._parked[uid] = self._written(world, pod, "Unschedulable", said)

    def _free(self, world: World, pods: dict[str, Any]) -> dict[str, int]:
        free = {
            node["metadata"]["name"]: parse_quantity(node["status"]["allocatable"]["cpu"], millis=True)
            for node in objects(world, NODES)
            if node["status"]["conditions"][0]["status"] == "True"
        }
        taken = [(pod["spec"].get("nodeName"), millicores(pod)) for pod in pods.values()]
        for node, amount in [*taken, *self._assumed.values()]:
            if node in free:
                free[node] -= amount
        return free


def objects(world: World, resource: Any) -> list[Any]:
    """As they are stored: to be read, not changed."""
    return [one.new for one in world.api.store.all(resource)]
