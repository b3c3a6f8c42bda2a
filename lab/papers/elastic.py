"""E1 to E4 on one bed: resizes that a patch makes, then workers that follow what their jobs report."""

import asyncio
from time import monotonic
from typing import Final

from extender.controllers.removals import QUIET_S
from lab.bench.testbed.nodes import NODES, bed
from lab.bench.testbed.shaping import set_rates
from lab.papers.bed import SYSTEM, training_site
from lab.papers.figures import Figure, Tell
from lab.papers.policies import BATCHES, followed, settings
from lab.papers.resizes import Resizes
from lab.testbed.objects import node

_LINK_BPS: Final = 20_000_000
"""So that jobs wait for their links and leave this machine's cores to those that start"""


async def measure(runs: int, tell: Tell) -> list[Figure]:
    """All of them; netgang's quiet time after a change of its settings is used for runs of the resizes."""
    figures, resizes = list[Figure](), Resizes()
    with bed(nodes=(*SYSTEM, *NODES)) as made:
        set_rates(made, dict.fromkeys(NODES, _LINK_BPS))
        async with training_site(made, [node(one, cpu="16", zone="a") for one in NODES]) as site:
            for number, every in enumerate(BATCHES):
                await site.configure(*settings(every))
                over_s = monotonic() + QUIET_S
                tell(f"E: netgang looks each {every} steps")
                for run in range(number, runs, len(BATCHES)):
                    await resizes.run(site, run, tell)
                await asyncio.sleep(max(over_s - monotonic(), 0.0))
                figures += await followed(site, every, runs, tell)
    return [*resizes.figures(), *figures]
