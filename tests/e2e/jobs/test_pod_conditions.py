"""The condition netgang.io/Admitted on a real API server: why a gang waits, then that it was admitted."""

from collections.abc import Callable

from lab.testbed.api import Object
from lab.testbed.objects import node
from tests.e2e.stage import Stage

CONDITION = "netgang.io/Admitted"


def condition(one: Object) -> tuple[str, str]:
    found = [each for each in one["status"].get("conditions", []) if each["type"] == CONDITION]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


async def test_pods_say_why_they_wait_and_that_they_were_admitted(stage: Stage) -> None:
    """Gated pods, of which kube-scheduler says nothing: one patch for each, and the other conditions stay."""
    await stage.netgang(on={"a": 1})
    await stage.create_gang("g", 3, gated=True, cpu="3")

    def all_say(status: str) -> Callable[[list[Object]], bool]:
        return lambda found: [condition(one)[0] for one in found] == [status] * 3

    waiting = await stage.until_pods(all_say("False"), "all say why they wait", begin="g")
    (message,) = {
        each["message"] for one in waiting for each in one["status"]["conditions"] if each["type"] == CONDITION
    }
    assert {condition(one)[1] for one in waiting} <= {"InsufficientRoom", "ZoneTooSmall", "RequestTooLarge"}
    assert "3" in message, message
    assert all({"PodScheduled", CONDITION} <= {each["type"] for each in one["status"]["conditions"]} for one in waiting)
    await stage.add_nodes(*(node(f"more{number}", zone="a", cpu="16") for number in range(2)))
    admitted = await stage.until_pods(all_say("True"), "all say that they were admitted", begin="g")
    assert {condition(one)[1] for one in admitted} == {"Admitted"}
