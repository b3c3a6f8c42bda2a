"""Taking netgang away: policies first, then every gate; nothing that is not its own; what cannot go is said."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from cli.removal import Removal
from extender.errors import ApiError
from scoring.model import GATE
from tests.fakes.clock import FakeClock
from tests.fakes.operator_api import FakeOperatorApi

ADMISSION = "/apis/admissionregistration.k8s.io"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/netgang-system/leases"


def gated(api: FakeOperatorApi, name: str, *gates: str) -> str:
    path = f"/api/v1/namespaces/team/pods/{name}"
    spec = {"schedulerName": "netgang", "containers": [], "schedulingGates": [{"name": one} for one in gates]}
    api.add(path, spec=spec, status={"phase": "Pending"})
    return path


def policies(api: FakeOperatorApi, *versions: str) -> None:
    for version in versions:
        for plural in ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings"):
            api.add(f"{ADMISSION}/{version}/{plural}/netgang-gate")


def removal(api: FakeOperatorApi, *, then: Callable[[], object] = lambda: None) -> Removal:
    """A removal whose pauses pass at once; `then` is what others do in each."""
    clock = FakeClock()

    async def pause(seconds: float) -> None:
        clock.advance(seconds)
        then()

    return Removal(api, clock, dry_run=False, pause=pause)


@pytest.fixture
def api() -> FakeOperatorApi:
    return FakeOperatorApi()


async def taken_away(api: FakeOperatorApi, then: Callable[[], object] = lambda: None) -> Removal:
    one = removal(api, then=then)
    await one.policies()
    await one.gates()
    return one


async def test_policies_go_and_pods_are_let_go(api: FakeOperatorApi) -> None:
    policies(api, "v1")
    mine, both, theirs = gated(api, "a", GATE), gated(api, "b", GATE, "x/y"), gated(api, "c", "x/y")
    one = await taken_away(api)
    assert [path for path in api.paths() if ADMISSION in path] == []
    gates = [api.stored(path)["spec"].get("schedulingGates", ()) for path in (mine, both, theirs)]
    assert [[gate["name"] for gate in listed] for listed in gates] == [[], ["x/y"], ["x/y"]]
    assert (set(one.done.released), one.done.left) == ({"team/a", "team/b"}, {})
    plurals = ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies")
    assert one.done.policies == [f"{plural}/netgang-gate" for plural in plurals]


@pytest.mark.parametrize("versions", [("v1",), ("v1beta1",), ("v1", "v1beta1")])
async def test_policies_of_every_version_that_is_served(api: FakeOperatorApi, versions: tuple[str, ...]) -> None:
    """Older clusters serve the beta alone, newer ones the same object twice."""
    policies(api, *versions)
    one = removal(api)
    await one.policies()
    assert len(one.done.policies) == 2
    assert f"{ADMISSION}/{versions[0]}/mutatingadmissionpolicies/netgang-gate" not in api.paths()


async def test_pods_that_are_gated_while_it_runs(api: FakeOperatorApi) -> None:
    """An API server may gate for some seconds by a policy that is deleted: those pods are released as well."""
    policies(api, "v1")
    late = ["late-1", "late-2"]
    one = await taken_away(api, then=lambda: [gated(api, late.pop(0), GATE) for _ in late[:1]])
    assert set(one.done.released) == {"team/late-1", "team/late-2"}


async def test_gates_in_templates_do_not_keep_it_for_ever(api: FakeOperatorApi) -> None:
    numbers = iter(range(10_000))
    gated(api, "first", GATE)
    one = await taken_away(api, then=lambda: gated(api, f"p-{next(numbers)}", GATE))
    assert len(one.done.released) > 50
    assert ["is it in a template?" in why for why in one.done.left.values()] == [True]


class Patching(FakeOperatorApi):
    """Another pod takes the name of the first one just before that is patched; a webhook refuses changes of `no`."""

    async def patch(self, path: str, change: Mapping[str, Any]) -> None:
        if change["metadata"]["uid"] == "uid-00000001":
            gated(self, "a", GATE)
        if path.endswith("/no"):
            raise ApiError(422, "spec.schedulingGates: a webhook says no")
        await super().patch(path, change)


async def test_a_pod_that_was_replaced_is_the_next_round_s_and_what_may_not_be_patched_is_left() -> None:
    api = Patching()
    path = gated(api, "a", GATE)
    gated(api, "no", GATE)
    one = await taken_away(api)
    assert not api.stored(path)["spec"].get("schedulingGates")
    assert one.done.left == {"team/no": "spec.schedulingGates: a webhook says no"}
    assert list(one.done.released) == ["team/a"]


async def test_no_right_to_look_is_an_error(api: FakeOperatorApi) -> None:
    api.forbidden.add("/api/v1/pods")
    with pytest.raises(ApiError, match="403"):
        await removal(api).gates()


async def test_leases_that_nobody_renews_go(api: FakeOperatorApi) -> None:
    """Two netgangs would act if a living leader's Lease were deleted."""
    path = f"{LEASES}/netgang-leader"
    api.add(path, spec={"holderIdentity": "alive", "leaseDurationSeconds": 4})
    api.add(f"{LEASES}/netgang-scheduler", spec={"holderIdentity": "gone", "leaseDurationSeconds": 15})
    one = removal(api, then=lambda: api.edit(path, lambda lease: lease["spec"].update(renewTime="again")))
    await one.leases("netgang-system")
    assert (api.paths(), one.done.leases) == ({path}, ["netgang-scheduler"])
    assert one.done.left == {"leases/netgang-leader": "alive renews it: does it still run?"}
