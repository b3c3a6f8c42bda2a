"""Jobs that keep their workers although a gang waits: nothing is patched; /v1/jobs and an Event say why."""

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from scoring.scaling.change import No
from tests.extender.controllers.elastic.cluster import Site, site

pytestmark = pytest.mark.looptime


@dataclass(frozen=True, slots=True)
class Case:
    low: tuple[int, int]  # workers and minimum of the one that runs
    heavy: tuple[int, int]
    why_not: No  # why nobody shrinks
    low_says: str = ""  # part of what the first says of itself
    elastic: dict[str, Any] = field(default_factory=dict)
    most: str | None = None  # maximum of the first, where it is not its size


CASES = {
    "it would not suffice": Case(low=(6, 3), heavy=(6, 6), why_not=No.NOT_ENOUGH),
    "as heavy and earlier": Case(low=(8, 2), heavy=(2, 2), why_not=No.NO_JOB, low_says=No.NOT_LIGHTER),
    "heavier": Case(low=(8, 3), heavy=(2, 2), why_not=No.NO_JOB, low_says=No.NOT_LIGHTER),
    "at its minimum": Case(  # a dry run, because else it would grow into the two CPUs that the other cannot use
        low=(6, 6), heavy=(7, 7), why_not=No.NO_JOB, low_says=No.AT_MINIMUM, elastic={"dry_run": True}, most="8"
    ),
    "at most so many at once": Case(
        low=(6, 2), heavy=(5, 5), why_not=No.NOT_ENOUGH, elastic={"decrement": 1, "increment": 1}
    ),
}


async def told(here: Site, path: str) -> Any:
    transport = httpx.ASGITransport(app=here.world.service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://netgang") as client:
        reply = await client.get(path)
        assert reply.status_code == 200, reply.text
        return reply.json()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_nothing_is_patched_and_the_reason_is_visible(case: Case) -> None:
    """Both the waiting gang's and the job's reason can be read, and one Event on the waiting job has both."""
    async with site(elastic=case.elastic) as here:
        bounds = {} if case.most is None else {"netgang.io/max-workers": case.most}
        await here.runs("low", case.low[0], least=case.low[1], annotations=bounds)
        here.create("heavy", case.heavy[0], least=case.heavy[1])
        await here.until_quiet_is_over()
        await here.world.settle(10.0)
        assert (here.workers("low"), here.claims, here.api.calls["patch_object"]) == (case.low[0], {}, 0)
        first = (await told(here, "/v1/jobs"))["first_waiting"]
        assert (first["gang"], first["reason"]) == ("default/heavy", case.why_not)
        assert case.low_says in (await told(here, "/v1/jobs/default/low"))["wish"]
        [note] = [
            one for one in here.world.told("GangWaiting") if one.startswith("No running job gives up workers for it")
        ]
        assert case.why_not in note
        assert f"1 job: {case.low_says}" in note or not case.low_says
