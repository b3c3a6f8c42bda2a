"""Put a pod on a node and know that it is there.

Why: an answer can get lost after the Binding took effect. Taken for a failure it would break a started gang; posting
again blindly would be answered 409 and look like one.
Rule: post; when the outcome is unknown, or the API server was too busy, read the pod: on that node with the same uid
is success, not bound may be posted again, anything else is a conflict. All attempts together end within
`deadline_s` of the call, so that a leader whose lease outlasts it never has a POST under way as a former leader.
"""

import asyncio
import random

import msgspec

from extender.convert.decode import Headed
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.kube.calls import POD_BIND, POD_GET
from extender.kube.transport import Transport
from extender.ports import Binding, Clock
from extender.runtime.clock import Backoff
from extender.settings.times import BINDING_MAX_S


class BindLimits(msgspec.Struct, frozen=True):
    """How long and how often one Binding is tried."""

    deadline_s: float = BINDING_MAX_S
    attempt_s: float = 3.0
    attempts: int = 4
    backoff: Backoff = msgspec.field(default_factory=lambda: Backoff(first_s=0.05, limit_s=1.0))


class _Gate(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[_Gate] | None = None


class _Pod(Headed):
    spec: _Spec = msgspec.field(default_factory=_Spec)


POD = msgspec.json.Decoder(_Pod)  # What of a pod shows how a Binding or patch ended


class Binder:
    """Posts Bindings through one transport."""

    def __init__(self, transport: Transport, *, clock: Clock, rng: random.Random, limits: BindLimits) -> None:
        self._transport = transport
        self._clock = clock
        self._rng = rng
        self._limits = limits

    async def bind(self, binding: Binding) -> None:
        """Return once the pod is known to be on the node.

        Errors: ConflictError (elsewhere, replaced, gated or being deleted), NotFoundError (pod is gone), ApiError
        (refused for good, or 429 to the last), ApiUnavailableError (the outcome is not known).
        """
        ends_s = self._clock.monotonic_s() + self._limits.deadline_s
        path = POD_BIND.path(binding.namespace, binding.name)
        head = {"name": binding.name, "namespace": binding.namespace, "uid": binding.uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": head, "target": target})
        failures = 0
        while True:
            try:
                await self._transport.send("POST", path, body=body, timeout_s=self._share(ends_s))
                return
            except NotFoundError:
                raise
            except ConflictError:
                if await self._is_there(binding, ends_s=ends_s):
                    return
                raise
            except (ApiError, ApiUnavailableError) as error:
                if not _may_have_worked_or_may_later(error):
                    raise
                failures += 1
                waited = failures < self._limits.attempts and await self._wait(failures, error, ends_s=ends_s)
                if await self._is_there(binding, ends_s=ends_s):
                    return
                if not waited:
                    raise _final(binding, error) from error

    async def _is_there(self, binding: Binding, *, ends_s: float) -> bool:
        """Whether the pod is on that node and no other. Errors: ConflictError, NotFoundError, ApiUnavailableError."""
        failures = 0
        while True:
            try:
                path = POD_GET.path(binding.namespace, binding.name)
                found = POD.decode(await self._transport.send("GET", path, timeout_s=self._share(ends_s)))
                break
            except msgspec.MsgspecError as error:
                raise ApiUnavailableError(f"pod {binding.namespace}/{binding.name} cannot be read: {error}") from error
            except (ApiError, ApiUnavailableError) as error:
                if not _may_have_worked_or_may_later(error):
                    raise
                failures += 1
                if not await self._wait(failures, error, ends_s=ends_s):
                    raise _final(binding, error) from error
        pod, node = f"pod {binding.namespace}/{binding.name}", found.spec.node_name
        if found.metadata.uid != binding.uid:
            raise ConflictError(409, f"{pod} was replaced by another of the same name")
        if node not in ("", binding.node):
            raise ConflictError(409, f"{pod} is already on node {node}")
        return node == binding.node

    async def _wait(self, failures: int, error: ApiError | ApiUnavailableError, *, ends_s: float) -> bool:
        """Wait before another try; false at once when that would not leave time for it."""
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        delay_s = self._limits.backoff.delay_s(failures, rng=self._rng, retry_after_s=asked_s)
        if self._clock.monotonic_s() + delay_s >= ends_s:
            return False
        await asyncio.sleep(delay_s)
        return True

    def _share(self, ends_s: float) -> float:
        return max(0.0, min(self._limits.attempt_s, ends_s - self._clock.monotonic_s()))


def _may_have_worked_or_may_later(error: ApiError | ApiUnavailableError) -> bool:
    """No answer or a 5xx: it may have taken effect; 429: it did not, but may be tried again."""
    return isinstance(error, ApiUnavailableError) or error.status == 429 or error.status >= 500


def _final(binding: Binding, error: ApiError | ApiUnavailableError) -> ApiError | ApiUnavailableError:
    """The answer to the caller when tries and time are used up; only a 429 is known to have had no effect."""
    if isinstance(error, ApiError) and error.status == 429:
        return error
    return ApiUnavailableError(
        f"binding of pod {binding.namespace}/{binding.name} to {binding.node}: outcome unknown: {error}"
    )
