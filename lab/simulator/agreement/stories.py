"""A dozen small stories that run twice, in the simulator and on real programs, and must end alike.

Why: a model of kube-scheduler is worth what it has been checked against. Rule: a story sees its cluster only through
`Stage`, so it is the same text for both; it returns facts that do not depend on how fast a machine is (placements where
they are determined, else which started, in which order, how many were left out, how often a waiting pod was asked), and
equal facts are agreement.
"""

from lab.simulator.agreement.stage import (
    PLAIN,
    QUIET_S,
    Facts,
    NodeSpec,
    PodSpec,
    Stage,
    Story,
    bound,
    members,
    nodes,
    parked,
    until,
)


async def only_one_node_fits(stage: Stage) -> Facts:
    """A plain pod goes to the only node with room for it."""
    await stage.add_nodes(NodeSpec("small", cpu="500m"), NodeSpec("large", cpu="2"), NodeSpec("tiny", cpu="100m"))
    await stage.create(PodSpec("p"))
    return {"placed": await bound(stage, "p", 1)}


async def the_emptier_node(stage: Stage) -> Facts:
    """Without an extender the larger of two empty nodes takes the first pod, and is still the emptier for the next."""
    await stage.add_nodes(NodeSpec("large", cpu="16"), NodeSpec("small", cpu="4"))
    before = await stage.asked()
    await stage.create(PodSpec("p1", scheduler=PLAIN), PodSpec("p2", scheduler=PLAIN))
    return {"placed": await bound(stage, "p", 2), "asked": await stage.asked() - before}


async def a_gang_starts_whole(stage: Stage) -> Facts:
    """Four members, four nodes of one zone."""
    await stage.add_nodes(*nodes(4))
    await stage.create(*members("g", 4))
    found = await bound(stage, "g", 4)
    return {"nodes": sorted((found or {}).values())}


async def the_last_member_comes_late(stage: Stage) -> Facts:
    """One of two waits parked; when the other comes it is woken, past its backoff, and both start within a second."""
    await stage.add_nodes(*nodes(2))
    await stage.create(*members("g", 2)[:1])
    waits = await parked(stage, "g-0")
    asked = await stage.asked()
    await stage.sleep(QUIET_S)
    quiet = await stage.asked() - asked
    await stage.create(*members("g", 2)[1:])
    found = await bound(stage, "g", 2, limit_s=1.0)
    return {"waits": waits, "asked while quiet": quiet, "nodes": sorted((found or {}).values())}


async def a_refused_pod_is_asked_twice(stage: Stage) -> Facts:
    """A constant refusal: one question, one more for the condition that kube-scheduler itself wrote, then none."""
    await stage.add_nodes(*nodes(2))
    before = await stage.asked()
    await stage.create(*members("g", 1, zones="b"))
    waits = await parked(stage, "g-0")
    await stage.sleep(QUIET_S)
    return {"waits": waits, "asked": await stage.asked() - before}


async def a_new_node_wakes_the_refused(stage: Stage) -> Facts:
    """Any event wakes a pod that an extender refused: here a node in the zone it is allowed in."""
    await stage.add_nodes(*nodes(2))
    await stage.create(*members("g", 1, zones="b"))
    waits = await parked(stage, "g-0")
    await stage.add_nodes(NodeSpec("far", zone="b"))
    return {"waits": waits, "placed": await bound(stage, "g", 1)}


async def in_tree_filters_come_first(stage: Stage) -> Facts:
    """A pod that no node's labels match is refused without a question, whatever others do; its node wakes it."""
    await stage.add_nodes(*nodes(2))
    before = await stage.asked()
    await stage.create(PodSpec("p", selector={"fast": "yes"}))
    waits = await parked(stage, "p")
    await stage.create(PodSpec("other", scheduler=PLAIN))
    await bound(stage, "other", 1)
    await stage.sleep(QUIET_S)
    asked = await stage.asked() - before
    await stage.add_nodes(NodeSpec("fast", labels={"fast": "yes"}))
    return {"waits": waits, "asked": asked, "placed": await bound(stage, "p", 1)}


async def room_goes_to_the_urgent(stage: Stage) -> Facts:
    """Two pods wait for one place, and no pod is evicted for them; the later, more urgent one gets it."""
    await stage.add_nodes(NodeSpec("n1"))
    await stage.create(PodSpec("first"))
    await bound(stage, "first", 1)
    await stage.create(PodSpec("w-old"), PodSpec("w-urgent", urgent=True))
    waits = await parked(stage, "w-old", "w-urgent")
    await stage.delete("first")
    got = await bound(stage, "w", 1)
    await stage.sleep(QUIET_S)
    return {"waits": waits, "got": sorted(got or {}), "in the end": sorted((await stage.look()).of("w"))}


async def pods_without_gangs_start_in_part(stage: Stage) -> Facts:
    """Two jobs of four, created in turns, in room for six under kube-scheduler alone: three of each, none whole."""
    await stage.add_nodes(*nodes(6))
    turns = [PodSpec(f"{job}-{index}", scheduler=PLAIN) for index in range(4) for job in ("a", "b")]
    await stage.create(*turns)
    waits = await parked(stage, "a-3", "b-3")
    look = await stage.look()
    return {"waits": waits, "a": sorted(look.of("a")), "b": sorted(look.of("b"))}


async def two_gangs_in_room_for_one(stage: Stage) -> Facts:
    """One gang starts whole and the other not at all; when the first is gone, the other starts."""
    await stage.add_nodes(*nodes(6))
    await stage.create(*members("a", 4), *members("b", 4))
    await until(stage, lambda seen: len(seen.bound) >= 4)
    await stage.sleep(QUIET_S)
    look = await stage.look()
    sizes = sorted((len(look.of("a")), len(look.of("b"))))
    winner, loser = ("a", "b") if look.of("a") else ("b", "a")
    await stage.delete(*look.of(winner))
    then = await bound(stage, loser, 4)
    return {"sizes": sizes, "then": len(then or {})}


async def more_members_than_the_minimum(stage: Stage) -> Facts:
    """Three of five must start; there is room for four, and one is left out."""
    await stage.add_nodes(*nodes(4))
    await stage.create(*members("g", 5, minimum=3))
    found = await bound(stage, "g", 4)
    await stage.sleep(QUIET_S)
    look = await stage.look()
    return {"nodes": sorted((found or {}).values()), "bound": len(look.of("g")), "refused": len(look.refused)}


async def gated_members_are_asked_once(stage: Stage) -> Facts:
    """At the gate no call asks for them; admitted, each is asked once, refused never, and bound."""
    await stage.add_nodes(*nodes(4))
    before = await stage.asked()
    await stage.create(*members("g", 4, gated=True)[:3])
    await stage.sleep(QUIET_S)
    at_the_gate = (await stage.asked() - before, len((await stage.look()).gated))
    await stage.create(*members("g", 4, gated=True)[3:])
    found = await bound(stage, "g", 4)
    look = await stage.look()
    return {
        "at the gate": at_the_gate,
        "nodes": sorted((found or {}).values()),
        "refused": len(look.refused),
        "asked": await stage.asked() - before,
    }


async def each_role_where_it_fits(stage: Stage) -> Facts:
    """A large member without GPU, small ones with: the placement is determined."""
    await stage.add_nodes(
        NodeSpec("plain", cpu="8"),
        NodeSpec("gpu-1", cpu="2", gpu=2),
        NodeSpec("gpu-2", cpu="2", gpu=2, labels={"fast": "yes"}),
    )
    await stage.create(
        PodSpec("g-ps", cpu="4", gang="g", minimum=3),
        PodSpec("g-w0", cpu="2", gang="g", minimum=3, gpu=2, selector={"fast": "yes"}),
        PodSpec("g-w1", cpu="2", gang="g", minimum=3, gpu=2),
    )
    return {"placed": await bound(stage, "g", 3)}


STORIES: tuple[Story, ...] = (
    only_one_node_fits,
    the_emptier_node,
    a_gang_starts_whole,
    the_last_member_comes_late,
    a_refused_pod_is_asked_twice,
    a_new_node_wakes_the_refused,
    in_tree_filters_come_first,
    room_goes_to_the_urgent,
    pods_without_gangs_start_in_part,
    two_gangs_in_room_for_one,
    more_members_than_the_minimum,
    gated_members_are_asked_once,
    each_role_where_it_fits,
)
