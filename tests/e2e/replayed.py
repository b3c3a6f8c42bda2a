"""Decisions of real runs, run again: each netgang of a test gives its log away before it is stopped.

One that was killed, or that shows its documents to no caller, is counted as silent.
"""

from dataclasses import dataclass, fields

import httpx

from extender.decision_log.entries import read
from extender.decision_log.replay import Gap, RunAgain, replay
from lab.testbed.parts.service import Netgang


@dataclass(slots=True)
class Replayed:
    logs: int = 0
    silent: int = 0
    runs: int = 0
    steps: int = 0
    missing: int = 0

    async def check(self, one: Netgang) -> None:
        """Fetch the log and run it again; AssertionError if anything comes out differently."""
        try:
            async with httpx.AsyncClient(timeout=30.0) as client:
                answer = await client.get(f"{one.debug_url}/v1/record")
        except httpx.HTTPError:
            self.silent += 1
            return
        if answer.status_code != httpx.codes.OK:
            assert "record.enabled" not in answer.text, f"{one.part.name}: keeps no decisions to be run again"
            self.silent += 1
            return
        self.logs += 1
        different = []
        for again in replay(read(answer.content)):
            if isinstance(again, Gap):
                self.missing += again.entries
                continue
            self.runs += isinstance(again, RunAgain)
            self.steps += not isinstance(again, RunAgain)
            if not again.same:
                different.append(again)
        assert different == [], f"{one.part.name}: decided differently when run again"

    def add(self, other: "Replayed") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def __str__(self) -> str:
        return (
            f"decision logs: {self.logs} run again, {self.silent} silent; {self.runs} planner runs and {self.steps} "
            f"steps of the permit machine as recorded, {self.missing} entries missing"
        )
