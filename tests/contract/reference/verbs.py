"""The part of the API's page that shows the three verbs: what kube-scheduler sends, and what the encoders answer."""

import json
from collections.abc import Iterator

from extender.convert import wire
from scoring.ids import Namespace, NodeName, PodName, PodUid
from scoring.model.reasons import Reason
from tests.contract.reference.text import json_block

_VERBS = """
## The verbs

kube-scheduler's own types (`k8s.io/kube-scheduler/extender/v1`): keys are Go's field names. All answer 200; mistakes
are in `Error`. Either `NodeNames` (with `nodeCacheCapable: true`, as in scheduler-config) or `Nodes` is set. What the
answers mean: [the extender](extender.md#verbs).
"""


def verbs_part() -> str:
    return _VERBS + "".join(_examples())


def _examples() -> Iterator[str]:
    pod = {"metadata": {"name": "w-0", "namespace": "team", "uid": "u-0"}, "spec": {"…": "as the API server has it"}}
    asked = {"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2"]}
    names = [NodeName("n1"), NodeName("n2")]
    args = wire.FilterArgs(wire.PodRef(PodUid("u-0"), Namespace("team"), PodName("w-0")), b"{}", names)
    bind = dict(zip(wire.ExtenderBindingArgs.__struct_fields__, ("w-0", "team", "u-0", "n2"), strict=True))
    assert tuple(asked) == wire.ExtenderArgs.__struct_fields__
    yield f"\n`POST /filter` and `POST /prioritize` take (ExtenderArgs):\n\n{json_block(asked)}"
    yield "\n`/filter` answers (ExtenderFilterResult) with the planned node,\n\n"
    yield _answer(wire.encode_filter(args, wire.Passed(names[1:])))
    yield "\nor with one constant [reason](reasons.md) for every node,\n\n"
    yield _answer(wire.encode_filter(args, wire.Refused(Reason.NO_ROOM)))
    yield "\nor, where it cannot decide, with an error; kube-scheduler then tries again by itself:\n\n"
    yield _answer(wire.encode_filter(args, wire.Failed(Reason.NOT_SYNCED)))
    yield f"\n`/prioritize` answers (HostPriorityList) 0 to {wire.MAX_SCORE} for every node asked:\n\n"
    yield _answer(wire.encode_scores(args, (3, 9)))
    yield f"\n`POST /bind` takes (ExtenderBindingArgs)\n\n{json_block(bind)}"
    yield "\nand answers (ExtenderBindingResult) an empty `Error` once the Binding exists, else why not:\n\n"
    yield _answer(wire.encode_bind(Reason.QUORUM_TIMEOUT))


def _answer(body: bytes) -> str:
    return json_block(json.loads(body))
