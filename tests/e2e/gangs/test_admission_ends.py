"""A gang that kube-scheduler keeps from coming to bind does not keep its room from others (docs/safety.md S25)."""

from tests.e2e.invariants import until_nothing_is_promised
from tests.e2e.objects import volume_in, with_claim
from tests.e2e.stage import Stage

SIZE = 3  # a gang takes all the room there is


async def test_a_gang_whose_claim_does_not_exist_waits_without_room(stage: Stage) -> None:
    """The next gang starts long before `admit_timeout_s`; the first one starts as soon as there are claim and room."""
    netgang = await stage.netgang(on={"a": SIZE})  # admit_timeout_s is 60
    await stage.api.create_all(with_claim(stage.gang("lacks", SIZE, gated=True)))
    path, missing = f"/v1/explain/{stage.namespace}/lacks", 'persistentvolumeclaim "data" not found'
    found = await stage.until_document(netgang, path, lambda one: missing in one["detail"], "the claim is named")
    assert found["code"] == "INCOMPLETE"
    await stage.create_gang("next", SIZE, gated=True)
    bound = await stage.until_bound("next", SIZE, limit_s=20.0)
    async with volume_in(stage.api, stage.namespace, "a"):
        await stage.end(*bound)
        await stage.until_bound("lacks", SIZE, limit_s=20.0)
        await until_nothing_is_promised(stage.api, netgang)
