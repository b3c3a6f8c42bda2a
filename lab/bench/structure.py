"""What the code looks like to a reader: four walks through it, and all sizes.

Walks: a snapshot through the planner; the body of a /filter call to its answer; a watch event of a Pod to the next
plan; a plan to the patch that removes a gate. Rules, the same for every tree:

- A *step* of a walk is a call from one project module into another one (or from the event loop into one) of a function
  that is written out: generated methods of records, lambdas and comprehensions do not count, nor does going on in a
  generator or coroutine that was left. What a function of numpy or asyncio calls back belongs to the project module
  that called that function.
- A step counts once for each pair (calling module, called module): a reader of a module's calls follows each arrow
  once.
- *modules*: those that are entered. *returns*: steps into a module that was entered before, by another arrow; that is
  the number of different arrows beyond the first one into each module.

    python -m lab.bench.structure [--json]
"""

import argparse
import asyncio
import dis
import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import msgspec
import uvicorn

from lab.bench import bed, sizes
from lab.bench.http import request
from scoring.model import GATE, Policy
from scoring.plan import plan
from tests.extender.scheduling.world import node_json, pod_json, unfinished

_WALKED = ("scoring", "extender", "client")
_UNNAMED = frozenset({"<module>", "<lambda>", "<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"})
_RESUME = bytes([dis.opmap["RESUME"]])
"""What the code of a function, and what follows each `yield`, begins with"""
_NODES = 5


class Walk(msgspec.Struct):
    """The steps of one walk, in the order of their first time."""

    arrows: dict[tuple[str, str], int] = {}
    """(calling module, called module) → how often"""

    @property
    def modules(self) -> list[str]:
        """Those entered, in the order of their first time."""
        return list(dict.fromkeys(called for _, called in self.arrows))

    @property
    def returns(self) -> int:
        """Steps into a module that was entered before."""
        return len(self.arrows) - len(self.modules)


@contextmanager
def walking(
    walk: Walk, *, since: Callable[[], bool] = lambda: True, until: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Note the steps of this thread in `walk`, from when `since` holds up to the moment at which `until` holds."""
    begun = over = False

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal begun, over
        if event != "call" or over:
            return
        called, code = _module(frame), frame.f_code
        begins = frame.f_lasti <= code.co_code.find(_RESUME) + 2  # not a generator that goes on
        if not (called and begins) or code.co_name in _UNNAMED or code.co_filename.startswith("<"):
            return
        if not begun:
            begun = since()
        if until():
            over = True
        if over or not begun:
            return
        back, caller = frame.f_back, ""
        while back is not None and not caller:
            caller = _module(back)
            back = back.f_back
        if caller != called:
            walk.arrows[caller, called] = walk.arrows.get((caller, called), 0) + 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _module(frame: FrameType) -> str:
    """Its project module; "": it is in none."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.partition(".")[0] in _WALKED else ""


def snapshot_walk() -> Walk:
    """A first plan for six gangs of five on twenty nodes in two zones: four are admitted, two wait."""
    listed = bed.nodes(20, zones=2)
    gangs = [bed.gang(f"g{number}", 5, cpu=8, created_s=float(number)) for number in range(6)]
    state = bed.snapshot(listed, gangs, bed.mesh(listed, measured_per_zone=5))
    walk = Walk()
    with walking(walk):
        made = plan(state, Policy(), now_s=10.0)
    assert (len(made.admitted), len(made.waiting)) == (4, 2)
    return walk


async def service_walks() -> tuple[Walk, Walk, Walk]:
    """The /filter call of a planned pod over a real connection; a Pod, up to the plan with it; a plan, to a patch."""
    objects = [node_json(f"n{number}") for number in range(_NODES)]
    objects += [pod_json(f"first-{number}", gang="first", size=2) for number in range(2)]
    filtered, planned, ungated = Walk(), Walk(), Walk()
    async with unfinished(*objects, scheduler_names=("netgang",)) as world:
        body = {"Pod": world.api.pod("first-0"), "Nodes": None, "NodeNames": [str(one) for one in world.node_names()]}
        head, _, _ = request("filter", 1).partition(b"Content-Length")
        content = json.dumps(body).encode()
        message = head + b"Content-Length: %d\r\nContent-Type: application/json\r\n\r\n" % len(content) + content
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(world.service.app, http="httptools", log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        with walking(filtered):
            writer.write(message)
            answered = await reader.readuntil(b"}")
        assert answered.startswith(b"HTTP/1.1 200"), answered
        assert b'"NodeNames":["n' in answered, answered
        writer.close()
        server.should_exit = True
        await serving
        plans = [world.plan]
        with walking(planned, until=lambda: world.plan is not plans[-1]):
            world.pod("second-0", gang="second", size=1)
            await world.settle(3.0)
        assert len(world.plan.admitted) == 2, world.plan
        plans.append(world.plan)
        with walking(ungated, since=lambda: world.plan is not plans[-1], until=lambda: bool(world.api.admitted)):
            world.pod("third-0", gang="third", size=1, schedulingGates=[{"name": GATE}])
            await world.settle(3.0)
        assert world.api.admitted == ["third-0"]
    return filtered, planned, ungated


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.structure", description="Walks through the code")
    parser.add_argument("--json", action="store_true", help="one JSON document, with the names of the modules")
    chosen, snapshot = parser.parse_args(), snapshot_walk()
    names = ("snapshot to its plan", "filter body to its answer", "Pod event to the plan", "plan to the ungate patch")
    walks = dict(zip(names, (snapshot, *asyncio.run(service_walks())), strict=True))
    if chosen.json:
        print(json.dumps({name: {"returns": walk.returns, "entered": walk.modules} for name, walk in walks.items()}))
        return
    for name, walk in walks.items():
        print(f"{name}: {len(walk.modules)} modules, {walk.returns} returns")
    sizes.show(sizes.table())


if __name__ == "__main__":
    main()
