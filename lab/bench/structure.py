"""What the code looks like to a reader: files and arrows of each package, three walks through it, and all sizes.

Walks: a snapshot through the planner; the body of a /filter call to its answer; a watch event of a Pod to the next
plan. Rules, the same for every tree:

- A *step* of a walk is a call from one project module into another one (or from the event loop into one) of a function
  that is written out: generated methods of records, lambdas and comprehensions do not count, nor does going on in a
  generator or coroutine that was left. What a function of numpy or asyncio calls back belongs to the project module
  that called that function.
- A step counts once for each pair (calling module, called module): a reader of a module's calls follows each arrow
  once.
- *modules*: those that are entered. *returns*: steps into a module that was entered before, by another arrow; that is
  the number of different arrows beyond the first one into each module.
- The planner's walk is given within `scoring.plan` (calls of other packages are leaves there), and with them.

    python -m lab.bench.structure [--json]
"""

import argparse
import asyncio
import dis
import json
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import grimp
import msgspec
import uvicorn

from lab.bench import bed, sizes
from lab.bench.http import request
from scoring.model.policy import Policy
from scoring.plan import plan
from tests.extender.scheduling.world import node_json, pod_json, unfinished

PACKAGES = ("scoring", "extender", "cli", "client", "probe", "report", "lab", "tests")
_WALKED = ("scoring", "extender", "client")
_UNNAMED = frozenset({"<module>", "<lambda>", "<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"})
_RESUME = bytes([dis.opmap["RESUME"]])
"""What the code of a function, and what follows each `yield`, begins with"""
_NODES = 5


class Walk(msgspec.Struct):
    """The steps of one walk, in the order of their first time."""

    arrows: dict[tuple[str, str], int] = {}
    """(calling module, called module) → how often"""

    def within(self, package: str) -> "Walk":
        """Only the modules of one package."""
        found = {(one, other): count for (one, other), count in self.arrows.items() if _is_in(other, package)}
        return Walk({(one if _is_in(one, package) else "", other): count for (one, other), count in found.items()})

    @property
    def modules(self) -> list[str]:
        """Those entered, in the order of their first time."""
        return list(dict.fromkeys(called for _, called in self.arrows))

    @property
    def returns(self) -> int:
        """Steps into a module that was entered before."""
        return len(self.arrows) - len(self.modules)

    def figures(self) -> dict[str, object]:
        """For a report."""
        return {"modules": len(self.modules), "returns": self.returns, "entered": self.modules}


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


@contextmanager
def walking(walk: Walk, *, until: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Note the steps of this thread in `walk`, up to the moment at which `until` holds."""
    over = False

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal over
        if event != "call" or over:
            return
        called = _module(frame)
        if called is None or not _is_step(frame):
            return
        if until():
            over = True
            return
        caller = _caller(frame)
        if caller != called:
            walk.arrows[caller, called] = walk.arrows.get((caller, called), 0) + 1

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def _module(frame: FrameType) -> str | None:
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.partition(".")[0] in _WALKED else None


def _is_step(frame: FrameType) -> bool:
    code = frame.f_code
    begins = frame.f_lasti <= code.co_code.find(_RESUME) + 2  # not a generator that goes on
    return code.co_name not in _UNNAMED and not code.co_filename.startswith("<") and begins


def _caller(frame: FrameType) -> str:
    back = frame.f_back
    while back is not None:
        found = _module(back)
        if found is not None:
            return found
        back = back.f_back
    return ""


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


async def service_walks() -> tuple[Walk, Walk]:
    """The /filter call of a planned pod over a real connection; then a Pod that comes, up to the plan with it."""
    objects = [node_json(f"n{number}") for number in range(_NODES)]
    objects += [pod_json(f"first-{number}", gang="first", size=2) for number in range(2)]
    filtered, planned = Walk(), Walk()
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
        before = world.plan
        with walking(planned, until=lambda: world.plan is not before):
            world.pod("second-0", gang="second", size=1)
            for _ in range(500):
                await asyncio.sleep(0.01)
                if world.plan is not before:
                    break
        assert len(world.plan.admitted) == 2, world.plan
    return filtered, planned


class Package(msgspec.Struct, frozen=True):
    """A package as a folder of files, and as modules that import each other."""

    files: int
    lines: int
    loose: int
    """Files beside the folders of the package, `__init__` not counted"""
    largest_folder: str
    largest_files: int
    arrows: int
    """Imports of one of its modules by another"""


def package(name: str, graph: grimp.ImportGraph) -> Package:
    """Measure a package that is in the current directory."""
    folder = name.replace(".", "/")
    files = [one for one in Path(folder).rglob("*.py") if not any(part.startswith(".") for part in one.parts)]
    folders = Counter(str(one.parent) for one in files if one.name != "__init__.py")
    largest = max(folders, key=lambda one: (folders[one], one), default=folder)
    inside = [one for one in graph.modules if _is_in(one, name)]
    return Package(
        files=len(files),
        lines=sum(one.read_bytes().count(b"\n") for one in files),
        loose=folders[folder],
        largest_folder=largest,
        largest_files=folders[largest],
        arrows=sum(_is_in(other, name) for one in inside for other in graph.find_modules_directly_imported_by(one)),
    )


def report() -> dict[str, Any]:
    """All figures of the tree in the current directory."""
    graph = grimp.build_graph(*PACKAGES)
    snapshot = snapshot_walk()
    filtered, planned = asyncio.run(service_walks())
    return {
        "packages": {
            name: {key: getattr(found, key) for key in Package.__struct_fields__}
            for name in (*PACKAGES, "scoring.plan")
            for found in [package(name, graph)]
        },
        "walks": {
            "snapshot through scoring.plan": snapshot.within("scoring.plan").figures(),
            "snapshot through scoring": snapshot.figures(),
            "filter body to its answer": filtered.figures(),
            "Pod event to the plan": planned.figures(),
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.bench.structure", description="Files, arrows and walks")
    parser.add_argument("--json", action="store_true", help="one JSON document, with the names of the modules")
    chosen = parser.parse_args(arguments)
    found = report()
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{'package':14}{'files':>7}{'lines':>8}{'loose':>7}{'arrows':>8}  largest folder")
    for name, one in found["packages"].items():
        counted = "".join(f"{one[key]:>{width}}" for key, width in _WIDTHS.items())
        print(f"{name:14}{counted}  {one['largest_folder']} ({one['largest_files']})")
    for name, one in found["walks"].items():
        print(f"{name}: {one['modules']} modules, {one['returns']} returns")
    sizes.show(sizes.table())


_WIDTHS = {"files": 7, "lines": 8, "loose": 7, "arrows": 8}

if __name__ == "__main__":
    main()
