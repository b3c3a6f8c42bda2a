"""Decisions of real runs, made again: each netgang of a test gives its log away before it is stopped."""

import httpx

from extender.decision_log import decisions
from lab.testbed.parts.service import Netgang


async def assert_decides_again(one: Netgang) -> None:
    """Fetch the log and decide again. One that was killed, or that shows its documents to no caller, is silent."""
    try:
        async with httpx.AsyncClient(timeout=30.0) as client:
            answer = await client.get(f"{one.debug_url}/v1/record")
    except httpx.HTTPError:
        return
    if answer.status_code != httpx.codes.OK:
        assert "record.enabled" not in answer.text, f"{one.part.name}: keeps no decisions to be made again"
        return
    different = [made.at_s for made in decisions(answer.content) if not made.same]
    assert different == [], f"{one.part.name}: decided differently"
