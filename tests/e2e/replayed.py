"""Decisions of real runs, made again: each netgang of a test gives its log away before it is stopped.

One that was killed, or that shows its documents to no caller, is counted as silent.
"""

from dataclasses import fields

import httpx
import msgspec

from extender.decision_log import decisions
from lab.testbed.parts.service import Netgang


class Replayed(msgspec.Struct):
    logs: int = 0
    silent: int = 0
    runs: int = 0

    async def check(self, one: Netgang) -> None:
        """Fetch the log and decide again; AssertionError if anything comes out differently."""
        try:
            async with httpx.AsyncClient(timeout=30.0) as client:
                answer = await client.get(f"{one.debug_url}/v1/record")
        except httpx.HTTPError:
            self.silent += 1
            return
        if answer.status_code != httpx.codes.OK:
            assert "record.enabled" not in answer.text, f"{one.part.name}: keeps no decisions to be made again"
            self.silent += 1
            return
        made = list(decisions(answer.content))
        self.logs += 1
        self.runs += len(made)
        assert [one.at_s for one in made if not one.same] == [], f"{one.part.name}: decided differently"

    def add(self, other: "Replayed") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def __str__(self) -> str:
        return f"decision logs: {self.logs} with {self.runs} planner runs made again, {self.silent} silent"
