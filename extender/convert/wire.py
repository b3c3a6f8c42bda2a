"""The extender/v1 JSON of kube-scheduler: bytes in, records out; answers in, bytes out.

kube-scheduler waits inside its only scheduling loop for 200 kB of names at 5,000 nodes: so the Pod stays raw, names are
decoded once, and replies are joined from the very bytes that came.

Rules (facts about kube-scheduler 1.33 to 1.37):
- Keys are Go field names, and every one is sent, absent values as null. A body that lacks one is read again with its
  keys compared as Go does, ignoring case (the Kubernetes objects inside keep their exact keys, as in the API server).
- `NodeNames` decides when both forms are given. Both null: malformed, an answer could only be "none" by accident.
  An empty list is a legal question with an empty answer. A name mentioned twice is answered twice.
- A repeated key: the last one counts, as in Go. Malformed: anything behind the JSON, invalid UTF-8, deep nesting.
- A reply is never `{}` (kube-scheduler reads it as "no node, no reason"); when nothing passes, each node has its reason
  under `FailedAndUnresolvableNodes`, so that no preemption is tried; scores are JSON integers (5.0 drops all scores).
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import astuple

from extender.errors import BadRequestError
from scoring import Namespace, NodeName, PodName, PodUid
from scoring.model import Reason

MAX_SCORE: Final = 10  # MaxExtenderPriority of extender/v1; the lowest score is 0
INTERNAL_ERROR: Final = "netgang: internal error, its log says more"  # The `Error` of a verb that failed inside
REASONS_SHOWN_MAX: Final = 64  # Up to so many nodes a reply also says why not the others (for people)


class PodRef(msgspec.Struct, frozen=True):
    """Which pod a request is about. `uid` and `namespace` are "" when a person left them out."""

    uid: PodUid = PodUid("")
    namespace: Namespace = Namespace("")
    name: PodName = PodName("")


class FilterArgs(msgspec.Struct, frozen=True):
    """What /filter and /prioritize ask: one pod, and the nodes left for it, in kube-scheduler's order."""

    pod: PodRef
    pod_json: bytes  # The Pod as it came: well-formed JSON in valid UTF-8, otherwise unchecked
    node_names: list[NodeName]
    nodes_json: list[bytes] | None = None  # The Node objects, if the request had them instead of names
    names_json: bytes = b""  # `node_names` as the JSON array that came; empty: not known, the encoder makes its own
    debug: bool = False  # Not from kube-scheduler: only a look, which changes nothing (docs/safety.md S2)


class BindArgs(msgspec.Struct, frozen=True):
    """What /bind is asked (ExtenderBindingArgs): create the Binding of pod `uid` to `node`."""

    name: PodName = msgspec.field(name="PodName", default=PodName(""))
    namespace: Namespace = msgspec.field(name="PodNamespace", default=Namespace(""))
    uid: PodUid = msgspec.field(name="PodUID", default=PodUid(""))
    node: NodeName = msgspec.field(name="Node", default=NodeName(""))


class Passed(msgspec.Struct, frozen=True):
    """The nodes that may be used; `others` says why not the rest. The request's own list object is the cheapest."""

    names: Sequence[NodeName]
    others: Reason = Reason.OTHER_NODE_PLANNED


class Refused(msgspec.Struct, frozen=True):
    """No node, for one constant reason: kube-scheduler parks the pod until an event or a nudge."""

    reason: Reason


class Failed(msgspec.Struct, frozen=True):
    """No decision: kube-scheduler tries again by timer only, and shows `error` in the pod's event."""

    error: Reason | str


T = TypeVar("T")
Args = TypeVar("Args", bound=msgspec.Struct)
FilterAnswer: TypeAlias = Passed | Refused | Failed


class ExtenderArgs(msgspec.Struct):
    """What kube-scheduler sends to /filter and /prioritize; Pod and Nodes are read where they are needed."""

    Pod: msgspec.Raw = msgspec.Raw()
    Nodes: msgspec.Raw = msgspec.Raw()
    NodeNames: msgspec.Raw = msgspec.Raw()


class _Object(msgspec.Struct):
    metadata: PodRef


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


_ARGS: Final = msgspec.json.Decoder(ExtenderArgs)
_BINDING: Final = msgspec.json.Decoder(BindArgs)
_OBJECT: Final = msgspec.json.Decoder(_Object)
_NODE_LIST: Final = msgspec.json.Decoder(_NodeList)
_NAMES: Final = msgspec.json.Decoder(list[NodeName])
_ANY_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RESULT: Final = b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":null,"FailedAndUnresolvableNodes":%b,"Error":%b}'
_NEXT_HOST: Final = ',{"Host":"'
# Score → what follows the host's name in the reply; a dict, so that an index below 0 does not wrap around
_SCORE_TAILS: Final = {score: f'","Score":{score}}}{_NEXT_HOST}' for score in range(MAX_SCORE + 1)}
_json = msgspec.json.encode


def decode_filter(body: bytes, *, debug: bool = False) -> FilterArgs:
    """Read ExtenderArgs. O(body). BadRequestError says what is wrong with it; `debug` is only passed on."""
    sent = _with_every_key(_ARGS, body, "ExtenderArgs")
    pod_json = _given(sent.Pod)
    if not pod_json:
        raise BadRequestError("Pod is missing or null")
    pod = _decoded(_OBJECT, pod_json, "Pod").metadata
    if not pod.name:
        raise BadRequestError("Pod has no metadata.name")
    names, names_json, nodes = _read_nodes(sent)
    return FilterArgs(pod, pod_json, names, nodes, names_json, debug)


def readable_names(body: bytes) -> list[NodeName]:
    """The node names of a request whose other parts may be wrong; empty when not even they can be read. O(body)."""
    try:
        return _read_nodes(_with_every_key(_ARGS, body, "ExtenderArgs"))[0]
    except BadRequestError:
        return []


def decode_bind(body: bytes) -> BindArgs:
    """Read ExtenderBindingArgs. O(body). BadRequestError says what is wrong with it."""
    args = _with_every_key(_BINDING, body, "ExtenderBindingArgs")
    for key, value in zip(args.__struct_encode_fields__, astuple(args), strict=True):
        if not value:
            raise BadRequestError(f"{key} is missing or empty")
    return args


def encode_filter(args: FilterArgs, answer: FilterAnswer) -> bytes:
    """Write an ExtenderFilterResult. O(names). ValueError: a node not asked for passes (it would drop the call)."""
    if isinstance(answer, Failed):
        return encode_filter_error(answer.error)
    if isinstance(answer, Refused):
        return _refusal(args, answer.reason)
    names, asked = answer.names, args.node_names
    if not names:
        return _refusal(args, answer.others)
    if names is asked and args.nodes_json is None:
        return _RESULT % (b"null", args.names_json or _json(asked), b"null", b'""')
    passed = frozenset(names)
    all_asked = asked if len(passed) == 1 else frozenset(asked)  # to hash 5,000 names takes longer than the answer
    if strange := [name for name in names if name not in all_asked]:
        raise ValueError(f"nodes pass that were not asked: {strange[:3]}")
    nodes = b"null"
    if args.nodes_json is not None:
        items = [item for name, item in zip(asked, args.nodes_json, strict=True) if name in passed]
        nodes = b'{"metadata":{},"items":[' + b",".join(items) + b"]}"
    reasons = b"null"
    if len(passed) < len(asked) <= REASONS_SHOWN_MAX:
        reasons = _json({name: answer.others for name in asked if name not in passed})
    return _RESULT % (nodes, _json(names), reasons, b'""')


def encode_filter_error(text: str) -> bytes:
    """Write an ExtenderFilterResult that only says `Error`: no node passes, the pod is tried again by timer."""
    return _RESULT % (b"null", b"null", b"null", _json(text))


def encode_scores(args: FilterArgs, scores: Sequence[int]) -> bytes:
    """Write the HostPriorityList, in the request's order. O(names). ValueError: not a score 0 to 10 for each name."""
    names = args.node_names
    if len(scores) != len(names):
        raise ValueError(f"{len(scores)} scores for {len(names)} nodes")
    try:
        tails = list(map(_SCORE_TAILS.__getitem__, scores))
    except KeyError as error:
        raise ValueError(f"score {error.args[0]!r} is not a whole number from 0 to {MAX_SCORE}") from error
    if not names:
        return b"[]"
    parts = [""] * (2 * len(names))
    parts[0::2] = _literals(args)
    parts[1::2] = tails
    parts[0] = '[{"Host":"' + parts[0]
    parts[-1] = parts[-1].removesuffix(_NEXT_HOST) + "]"
    return "".join(parts).encode()


def encode_equal_scores(names: Sequence[NodeName]) -> bytes:
    """Write 0 for every name: the answer that prefers nothing, for a request that cannot be judged."""
    return _json([{"Host": name, "Score": 0} for name in names])


def encode_bind(refusal: Reason | str | None) -> bytes:
    """Write an ExtenderBindingResult; None is success, and may only be said of a Binding that exists."""
    return b'{"Error":' + _json(refusal or "") + b"}"


def _read_nodes(sent: ExtenderArgs) -> tuple[list[NodeName], bytes, list[bytes] | None]:
    """Names, the names as a JSON array, and the Node objects if the request has these instead of names."""
    if names_json := _given(sent.NodeNames):
        return _decoded(_NAMES, names_json, "the nodes"), names_json, None
    nodes_json = _given(sent.Nodes)
    if not nodes_json:
        raise BadRequestError("NodeNames and Nodes are both missing or null")
    items = [bytes(item) for item in _decoded(_NODE_LIST, nodes_json, "the nodes").items or ()]
    names = [NodeName(_decoded(_OBJECT, item, "the nodes").metadata.name) for item in items]
    if not all(names):
        raise BadRequestError("a node in Nodes has no metadata.name")
    return names, _json(names), items


def _refusal(args: FilterArgs, reason: Reason) -> bytes:
    nodes = "null" if args.nodes_json is None else '{"metadata":{},"items":[]}'
    head = f'{{"Nodes":{nodes},"NodeNames":[],"FailedNodes":null,"FailedAndUnresolvableNodes":{{'
    tail = '},"Error":""}'
    if not args.node_names:
        return (head + tail).encode()
    reason_json = _json(reason).decode()
    names = [*_literals(args)]
    names[0] = f'{head}"{names[0]}'  # head and tail go into the join: each copy of half a megabyte costs page faults
    names[-1] = f'{names[-1]}":{reason_json}{tail}'
    return f'":{reason_json},"'.join(names).encode()


def _literals(args: FilterArgs) -> Sequence[str]:
    """The names as they stand between quotes in JSON: where no backslash came, none has anything to escape."""
    if args.names_json and b"\\" not in args.names_json:
        return args.node_names
    return [_json(name)[1:-1].decode() for name in args.node_names]


def _decoded(decoder: msgspec.json.Decoder[T], raw: bytes, what: str) -> T:
    try:
        return decoder.decode(raw)
    except RecursionError as error:
        raise BadRequestError(f"{what} cannot be read: it is nested too deeply") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequestError(f"{what} cannot be read: {error}") from error


def _given(raw: msgspec.Raw) -> bytes:
    """The text of a part; empty when absent or null."""
    return b"" if (text := bytes(raw)) == b"null" else text


def _with_every_key(decoder: msgspec.json.Decoder[Args], body: bytes, what: str) -> Args:
    """Decode `body`; if a key is absent, again with keys spelt as in Go: of equal keys the last one counts. O(body)."""
    if not body:
        raise BadRequestError("the body is empty")
    try:
        _ = body.isascii() or body.decode()  # into values that are kept raw the parser does not look
    except UnicodeDecodeError as error:
        raise BadRequestError(f"the body is not valid UTF-8 at byte {error.start}") from error
    args = _decoded(decoder, body, what)
    if not all(astuple(args)):
        exact = {key.casefold(): key for key in args.__struct_encode_fields__}
        pairs = _decoded(_ANY_KEYS, body, what).items()
        args = _decoded(decoder, _json({exact[k.casefold()]: raw for k, raw in pairs if k.casefold() in exact}), what)
    return args
