"""Whether several gangs may leave at the same time: each may by itself, and what they share allows it for all.

Why: a disruption budget may allow one of two gangs to leave and forbid both; without this check only one of two
whose room was wanted would leave, for nothing.
"""

from collections.abc import Iterable
from urllib.parse import quote

from extender.cache import ClusterCache
from extender.controllers.removal.disruption_budgets import forbidding
from extender.controllers.removal.fresh_gang import of_this_run, read_members
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import ClusterApi
from scoring.ids import GangKey

_PAGE = 500


class Together:
    """Reads gangs and disruption budgets afresh. Changes nothing."""

    def __init__(self, cache: ClusterCache, api: ClusterApi) -> None:
        self._cache = cache
        self._api = api

    async def __call__(self, gangs: Iterable[GangKey]) -> str | None:
        """Why these could not leave at once; `None`: nothing speaks against it. One is not asked again."""
        by_namespace: dict[str, list[GangKey]] = {}
        for key in gangs:
            by_namespace.setdefault(key.partition("/")[0], []).append(key)
        for namespace, keys in sorted(by_namespace.items()):
            if len(keys) < 2:
                continue
            try:
                forbids = await self._forbidding(namespace, keys)
            except (ApiError, ApiUnavailableError, ValueError) as error:
                return f"the API server did not say enough: {error}"
            if forbids is not None:
                return f"PodDisruptionBudget {forbids} does not allow {len(keys)} gangs to leave at once"
        return None

    async def _forbidding(self, namespace: str, keys: Iterable[GangKey]) -> str | None:
        pods: list[bytes] = []
        for key in keys:
            gang = self._cache.gang(key)
            members = await read_members(self._api, key, gang.source if gang is not None else None)
            pods.extend(one.raw for one in (of_this_run(gang, members) if gang is not None else members))
        budgets: list[bytes] = []
        path, token = f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets", ""
        while True:
            page = await self._api.list_page(path, limit=_PAGE, continue_token=token)
            budgets.extend(page.items)
            token = page.continue_token
            if not token:
                return forbidding(budgets, pods)
