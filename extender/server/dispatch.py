"""From the whole body of a call to the reply of its verb; `app` carries the bytes.

Rules:
- The three verbs always answer 200: kube-scheduler does not read the body of any other status. What is wrong stands in
  `Error` (filter, bind); prioritize has no such field and answers equal scores, which prefer nothing.
- An error never lets a node pass. A bug in the service is logged, counted, answered with a constant `Error`, and makes
  the process unready for a while; this dispatch is the supervisor of the verbs.
- filter and prioritize are answered at once; only filter waits for the watch, for some milliseconds, when the question
  shows that it is behind (`Verbs.caught_up`). An answer that takes time is a coroutine and costs a task; others do not.
- A call with `?debug` in its address, which kube-scheduler cannot send, and one of curl (`Callers`) is a look: the
  service knows it, and nothing is bound (docs/safety.md S2).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, assert_never

import msgspec

from extender.convert import wire
from extender.convert.wire import BindArgs, Failed, FilterAnswer, FilterArgs, Passed, Refused
from extender.errors import BadRequestError
from extender.runtime.telemetry import Telemetry
from scoring.model.reasons import Reason

UNREADY_AFTER_ERROR_S: Final = 30.0  # How long /readyz says no after an internal error: enough for a probe to see it

DEBUG_BINDS_NOTHING: Final = "netgang: a debugging call binds nothing"

PATHS: Final = frozenset({"/filter", "/prioritize", "/bind"})

_log = logging.getLogger("netgang.http")


class Callers(Enum):
    """What calls the verbs, where a call does not say `?debug` itself."""

    SCHEDULER = "all calls count: kube-scheduler, or a client that plays it"
    SCHEDULER_AND_CURL = "kube-scheduler; what says that it is curl is a person looking"


class Verbs(Protocol):
    """What kube-scheduler asks. Raising BadRequestError means that the request cannot be read after all."""

    def caught_up(self, args: FilterArgs) -> Awaitable[None] | None:
        """What to wait for, for some milliseconds, if kube-scheduler has seen more than we; mostly None."""

    def filter(self, args: FilterArgs) -> FilterAnswer:
        """Which of the nodes the pod may use; from memory, within a millisecond or so. Not asked for no nodes."""

    def prioritize(self, args: FilterArgs) -> Sequence[int]:
        """A score from 0 to 10 for each of `args.node_names`, in their order. Not asked for no nodes."""

    async def bind(self, args: BindArgs, gone: asyncio.Future[None]) -> Reason | str | None:
        """Bind the pod; None once the Binding exists, else why not. `gone`: the caller hung up, drop it."""


class Reply(NamedTuple):
    """What is sent, and what is counted."""

    body: bytes
    outcome: str
    reason: str = ""
    last: bool = False  # The rest of the body was not waited for, so the connection cannot be used again


GONE: Final = Reply(b"", "gone")

Answer: TypeAlias = Reply | Coroutine[Any, Any, Reply]


class Verb(NamedTuple):
    """One verb between bytes and bytes."""

    name: str
    answer: Callable[[bytes, asyncio.Future[None], bool], Answer]
    """The reply to a whole request body, which may only be a look; BadRequestError if it cannot be read"""
    failure: Callable[[bytes, str], bytes]
    """The reply that lets no node pass and binds nothing, to a body that could not be answered, and why"""
    holds: bool = False  # It may take so long that the caller hangs up


class Serving(msgspec.Struct, frozen=True):
    """How requests are served: largest and slowest body, and what sends them."""

    max_body_bytes: int
    body_timeout_s: float
    callers: Callers


class Supervisor(msgspec.Struct):
    """Remembers that something inside failed. Times are the event loop's."""

    telemetry: Telemetry
    unready_until_s: float = 0.0

    def caught(self, place: str) -> None:
        """Log and count the exception that is being handled, and be unready for a while."""
        _log.exception("internal error in %s", place)
        self.failed(place)

    def failed(self, place: str) -> None:
        """The same for one that another logs."""
        self.telemetry.internal_error(place)
        self.unready_until_s = asyncio.get_running_loop().time() + UNREADY_AFTER_ERROR_S

    def unready(self) -> bool:
        """Whether an internal error happened a moment ago."""
        return asyncio.get_running_loop().time() < self.unready_until_s


@dataclass(eq=False, repr=False)
class Dispatch:
    """Answers every call of a verb exactly once, whatever happens."""

    verbs: Verbs
    telemetry: Telemetry
    supervisor: Supervisor
    serving: Serving

    def __post_init__(self) -> None:
        self.by_path: Mapping[str, Verb] = {
            "/filter": Verb("filter", self._filter, lambda _, error: wire.encode_filter_error(error)),
            "/prioritize": Verb(
                "prioritize",
                self._prioritize,
                lambda body, _: wire.encode_equal_scores(wire.readable_names(body) if body else []),
            ),
            "/bind": Verb("bind", self._bind, lambda _, error: wire.encode_bind(error), holds=True),
        }

    def answer(self, verb: Verb, body: bytes, gone: asyncio.Future[None], *, marked: bool, curl: bool) -> Answer:
        """The reply, at once or in time; neither raises. `marked`: `?debug` in the address; `curl`: from curl."""
        debug = marked or (curl and self.serving.callers is Callers.SCHEDULER_AND_CURL)
        try:
            answer = verb.answer(body, gone, debug)
        except Exception as error:  # noqa: BLE001  (the verbs' supervisor: a bug is no 500, nor "all nodes pass")
            return self._failed(verb, body, error)
        return answer if isinstance(answer, Reply) else self._in_time(verb, body, answer)

    def too_large(self, verb: Verb) -> Reply:
        """The reply to a body that is larger than allowed, and is not read."""
        return _malformed(verb, b"", f"the body is larger than {self.serving.max_body_bytes} bytes", last=True)

    def too_late(self, verb: Verb) -> Reply:
        """The reply to a body that does not come."""
        return _malformed(verb, b"", f"the body did not arrive within {self.serving.body_timeout_s:g} s", last=True)

    def done(self, verb: Verb, reply: Reply, *, duration_s: float) -> None:
        """Count a call that was answered, or whose caller is gone."""
        self.telemetry.request_done(verb.name, reply.outcome, duration_s=duration_s, reason=reply.reason)

    async def _in_time(self, verb: Verb, body: bytes, answer: Coroutine[Any, Any, Reply]) -> Reply:
        try:
            return await answer
        except Exception as error:  # noqa: BLE001  (as above)
            return self._failed(verb, body, error)

    def _failed(self, verb: Verb, body: bytes, error: Exception) -> Reply:
        if isinstance(error, BadRequestError):
            return _malformed(verb, body, str(error))
        self.supervisor.caught(verb.name)
        return Reply(verb.failure(body, wire.INTERNAL_ERROR), "internal")

    def _filter(self, body: bytes, _gone: asyncio.Future[None], debug: bool) -> Answer:
        args = wire.decode_filter(body, debug=debug)
        if not args.node_names:
            return Reply(wire.encode_filter(args, Passed(())), "empty")
        wait = self.verbs.caught_up(args)
        return self._decide(args) if wait is None else self._decide_after(wait, args)

    async def _decide_after(self, wait: Awaitable[None], args: FilterArgs) -> Reply:
        await wait
        return self._decide(args)

    def _decide(self, args: FilterArgs) -> Reply:
        answer = self.verbs.filter(args)
        reply = wire.encode_filter(args, answer)
        match answer:
            case Passed(names, others):
                return Reply(reply, "passed") if names else Reply(reply, "refused", others)
            case Refused(reason):
                return Reply(reply, "refused", reason)
            case Failed(error):
                return Reply(reply, "failed", _reason_label(error))
            case _:
                assert_never(answer)

    def _prioritize(self, body: bytes, _gone: asyncio.Future[None], debug: bool) -> Answer:
        args = wire.decode_filter(body, debug=debug)
        if not args.node_names:
            return Reply(wire.encode_scores(args, ()), "empty")
        return Reply(wire.encode_scores(args, self.verbs.prioritize(args)), "scored")

    def _bind(self, body: bytes, gone: asyncio.Future[None], debug: bool) -> Answer:
        args = wire.decode_bind(body)
        return Reply(wire.encode_bind(DEBUG_BINDS_NOTHING), "debug") if debug else self._bind_in_time(args, gone)

    async def _bind_in_time(self, args: BindArgs, gone: asyncio.Future[None]) -> Reply:
        refusal = await self.verbs.bind(args, gone)
        if gone.done():
            return GONE
        if refusal is None:
            return Reply(wire.encode_bind(None), "bound")
        return Reply(wire.encode_bind(refusal), "refused", _reason_label(refusal))


def _malformed(verb: Verb, body: bytes, error: str, *, last: bool = False) -> Reply:
    return Reply(verb.failure(body, f"netgang: malformed request: {error}"), "malformed", last=last)


def _reason_label(error: Reason | str) -> str:
    """A refusal as a metric label: free texts all count as one, so that labels stay few."""
    return error if isinstance(error, Reason) else "other"
