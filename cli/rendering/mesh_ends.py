"""`netgang mesh … -o wide`: one line an end of the tests, so that a mesh is looked at before it is configured."""

from rich.console import Console, RenderableType

from cli.mesh.mesh import Site
from cli.rendering.columns import NONE, columns

_NAMES = ("END", "ZONE", "ADDRESS", "GATEWAY", "DIRECTIONS", "TESTS")


def ends_table(console: Console, site: Site, *, heads: bool = True) -> RenderableType:
    """Zone by zone: which tests an end runs, in how many directions of them it takes part, whether for its zone."""
    rows = []
    every = {(zone, end) for mesh in site.meshes.values() for zone, ends in mesh.zones.items() for end in ends}
    for zone, end in sorted(every):
        runs = {kind: mesh for kind, mesh in site.meshes.items() if end in mesh.zones.get(zone, ())}
        leads = [kind.value for kind, mesh in runs.items() if end in mesh.gateways.get(zone, ())]
        gateway = NONE if not leads else "yes" if len(leads) == len(runs) else ", ".join(leads)
        directions = sum(mesh.directions(zone, end) for mesh in runs.values())
        tests = ", ".join(kind.value for kind in runs)
        rows.append((end.label, zone, end.address, gateway, str(directions), tests))
    return columns(console, _NAMES, rows, heads=heads)
