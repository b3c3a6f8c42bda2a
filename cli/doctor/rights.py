"""Ask the API server what netgang's account may: a SubjectAccessReview for each call that it would make."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cli.doctor.facts import Right
from cli.doctor.running import needed
from extender.kube import calls
from extender.kube.key_store import NAME as NOTE_KEYS
from extender.settings.settings import Settings

_GROUP: Final = "/apis/authorization.k8s.io/v1"
_ACCOUNT: Final = "system:serviceaccount"
Create: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose rights: a user or service account, and the namespace of its own Lease."""

    account: str
    namespace: str

    @property
    def groups(self) -> list[str]:
        """Groups that the account is in without saying so.

        >>> Asked("system:serviceaccount:a:b", "a").groups
        ['system:serviceaccounts', 'system:serviceaccounts:a', 'system:authenticated']
        >>> Asked("netgang", "a").groups
        ['system:authenticated']
        """
        if not self.account.startswith(f"{_ACCOUNT}:"):
            return ["system:authenticated"]
        return [f"{_ACCOUNT}s", f"{_ACCOUNT}s:{self.account.split(':')[2]}", "system:authenticated"]


async def denied(create: Create, settings: Settings, asked: Asked) -> tuple[Right, ...]:
    """The rights that netgang needs and has not. Errors: ApiError (403: we may not ask), ApiUnavailableError.

    `create` posts an object, and gives it as the API server answers. For our own account it is a
    SelfSubjectAccessReview, which every account may make.
    """
    myself = await create(
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    )
    own = myself["status"]["userInfo"].get("username") == asked.account
    rights = sorted(set().union(*needed(settings).values()))
    at_home = dict.fromkeys(calls.rules(calls.LEADING), settings.lease.name)
    at_home |= dict.fromkeys(calls.rules(calls.NOTES), NOTE_KEYS)

    async def may(right: Right) -> bool:
        attributes = _attributes(right, at_home.get(right), namespace=asked.namespace)
        kind = "SelfSubjectAccessReview" if own else "SubjectAccessReview"
        spec = {"resourceAttributes": attributes, **({} if own else {"user": asked.account, "groups": asked.groups})}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        answer = await create(f"{_GROUP}/{kind.lower()}s", body)
        return bool(answer["status"]["allowed"])

    answers = await asyncio.gather(*(may(right) for right in rights))
    return tuple(right for right, allowed in zip(rights, answers, strict=True) if not allowed)


def _attributes(right: Right, own: str | None, *, namespace: str) -> dict[str, str]:
    """The right as a question. `own`: it is about this object of netgang's own namespace, but for making one."""
    verb, group, resource = right
    plural, _, subresource = resource.partition("/")
    name = own if own is not None and verb != "create" else ""
    found = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    return {
        key: value
        for key, value in {**found, "namespace": namespace if own is not None else "", "name": name}.items()
        if value or key == "group"
    }
