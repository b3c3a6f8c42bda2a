"""What the page of results shows of each benchmark: its figures in words, each with its goal and whether it holds.

Rule: a table's function gets the JSON lines of one section and nothing else. A figure without a goal has `–` there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.bench.page import CPU_RATIO, FILTER_RATIO, PAINT_MS, PAYLOAD_BYTES
from lab.bench.scale.run import STEADY_STALL_MS, SYNC_STALL_MS
from lab.bench.simulated import GOAL_S
from lab.bench.soak.run import GROWTH_RATIO, PLAN_MS, STALL_MS

Line = Mapping[str, Any]
Cells = list[str]
Made = tuple[Sequence[str], list[Cells]]
"""Heads, and rows of as many cells."""
_HEAD = ("what", "measured", "goal", "")
NO_GOAL = "–"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    r"""A table in Markdown. ValueError if a row has more or fewer cells than the head.

    >>> print(markdown(["a", "b"], [["1", "2|3"]]))
    | a | b |
    |---|---|
    | 1 | 2\|3 |
    """
    if any(len(row) != len(head) for row in rows):
        raise ValueError(f"a row has not the {len(head)} cells of {', '.join(head)}")
    lines = [head, *rows]
    texts = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(head), *texts[1:]])


def says(value: float, most: float | None, spread: Sequence[float] = ()) -> str:
    """Whether a figure that may not be above a goal holds it; a spread that crosses the goal is said.

    >>> says(1.0, 1.0), says(1.1, 1.0), says(1.0, None)
    ('holds', '**misses**', '')
    >>> says(1.0, 1.0, (0.9, 1.1)), says(1.1, 1.0, (0.9, 1.2)), says(0.9, 1.0, (0.8, 1.0))
    ('holds in the median', '**misses** in the median', 'holds')
    """
    if most is None:
        return ""
    crossed = " in the median" if spread and min(spread) <= most < max(spread) else ""
    return ("holds" if value <= most else "**misses**") + crossed


def row(what: str, value: float, unit: str, most: float | None = None) -> Cells:
    """One figure that is better the smaller it is.

    >>> row("a call", 0.25, "ms", 0.3)
    ['a call', '0.25 ms', '0.3 ms', 'holds']
    """
    return [what, _with_unit(value, unit), NO_GOAL if most is None else _with_unit(most, unit), says(value, most)]


def http(lines: Sequence[Line]) -> Made:
    """Netgang beside the Go echo, by verb and number of names."""
    head = ("names", "verb", "netgang p50 / p99", "Go p50 / p99", "ratio (lowest–highest round)", "goal", "")
    return head, [
        [
            f"{one['names']:,}",
            str(one["verb"]),
            f"{one['netgang_p50_ms']:.2f} / {one['netgang_p99_ms']:.2f} ms",
            f"{one['go_p50_ms']:.2f} / {one['go_p99_ms']:.2f} ms",
            f"{one['ratio']:.2f} ({one['ratio_spread'][0]:.2f}–{one['ratio_spread'][1]:.2f})",
            NO_GOAL if one["goal"] is None else f"{one['goal']:g}",
            says(one["ratio"], one["goal"], one["ratio_spread"]),
        ]
        for one in lines
    ]


def http_cpu(lines: Sequence[Line]) -> Made:
    """CPU of one call of three servers."""
    head = ("call", "least / uvicorn / netgang, µs CPU", "share of uvicorn's cost above the least", "goal", "")
    return head, [
        [
            f"{one['verb']}, {one['how']}",
            " / ".join(f"{one['cpu_us'][name]:.0f}" for name in ("least", "uvicorn", "netgang")),
            f"{one['share']:.2f}",
            "0.5",
            says(one["share"], 0.5),
        ]
        for one in lines
    ]


def planner(lines: Sequence[Line]) -> Made:
    """Each case of the planner."""
    head = ("case", "median (lowest–highest)", "goal", "")
    return head, [
        [
            str(one["case"]),
            f"{one['median_ms']:.1f} ms ({one['spread_ms'][0]:.1f}–{one['spread_ms'][1]:.1f})",
            NO_GOAL if one["goal_ms"] is None else f"{one['goal_ms']:g} ms",
            says(one["median_ms"], one["goal_ms"], one["spread_ms"]),
        ]
        for one in lines
    ]


def sync(lines: Sequence[Line]) -> Made:
    """The first sync without the network."""
    [one] = lines
    return _HEAD, [
        row(f"{one['pods']:,} pods of {one['pod_json_bytes'] / 1e3:.1f} kB, {one['nodes']:,} nodes: convert, cache",
            one["seconds"], "s", 10),
        row("memory of that process now", one["rss_mib"], "MiB"),
        row("memory of that process at most", one["peak_mib"], "MiB", 400),
        row("snapshot after one pod's event", one["snapshot_ms_after_one_pod_event"], "ms", 2),
        row("the same with nothing known", one["snapshot_ms_full"], "ms"),
    ]  # fmt: skip


def kube_client(lines: Sequence[Line]) -> Made:
    """Calls to an API server."""
    by_name = {one["figure"]: one for one in lines}
    synced, bind = by_name["first sync"], by_name["bind"]
    return _HEAD, [
        row(f"reading {synced['pods']:,} pods over HTTP into a reflector", synced["seconds"], "s"),
        row("longest stall meanwhile", synced["longest_stall_ms"], "ms", 50),
        row("CPU of one Binding in the client", bind["cpu_ms_per_bind"], "ms", 0.12),
    ]


_SCALE = (
    ("first sync", "sync_s", "s", None),
    ("longest stall in it", "sync_stall_ms", "ms", SYNC_STALL_MS),
    ("longest stall in the storm", "storm_stall_ms", "ms", STEADY_STALL_MS),
    ("peak memory", "peak_mib", "MiB", None),
    ("plan after an event in the storm, p50", "storm_plan_p50_ms", "ms", None),
    ("the same, p99", "storm_plan_p99_ms", "ms", None),
    ("full plan, nothing known", "plan_full_cold_ms", "ms", None),
    ("filter with all names, p50", "filter_all_p50_ms", "ms", None),
    ("filter with twelve names, p50", "filter_few_p50_ms", "ms", None),
)


def scale(lines: Sequence[Line]) -> Made:
    """Each size in a column, and how the costs grow."""
    sizes = [one for one in lines if one["bench"] == "scale"]
    grown = [one for one in lines if one["bench"] == "scale ratios"]
    head = ("", *(f"{one['nodes']:,} nodes" for one in sizes), "goal", "")
    rows = [
        [
            what,
            *(_with_unit(one[name], unit) for one in sizes),
            NO_GOAL if most is None else _with_unit(most, unit),
            says(max(one[name] for one in sizes), most),
        ]
        for what, name, unit, most in _SCALE
    ]
    for one in grown:
        faster = one["faster_than_linear"]
        blank = [NO_GOAL] * (len(sizes) - 1)
        rows.append(
            ["costs that grow faster than the nodes", *blank, ", ".join(faster) or "none", "none", says(len(faster), 0)]
        )
    return head, rows


def soak(lines: Sequence[Line]) -> Made:
    """A busy cluster for so many minutes."""
    [one] = lines
    return _HEAD, [
        row(f"planner run with {one['gangs']:,} waiting gangs, p99, CPU", one["plan_p99_ms"], "ms", PLAN_MS),
        row("longest stall of the event loop", one["stall_ms"], "ms", STALL_MS),
        row("memory at the end by memory when warm", one["rss_ratio"], "", GROWTH_RATIO),
        row("calls for pods at a gate", one["asked_at_the_gate"], "", 0),
        row("gangs started before their turn", one["overtakings"], "", 0),
    ]


def maddash(lines: Sequence[Line]) -> Made:
    """A mesh, and a large site."""
    mesh = next(one for one in lines if "s_per_10000_cells" in one)
    site = next(one for one in lines if "mesh_bytes" in one)
    return _HEAD, [
        row(f"10,000 cells fetched and parsed, of {mesh['cells']:,}", mesh["s_per_10000_cells"], "s", 0.3),
        row("longest time without a turn for others", mesh["held_s_max_median"] * 1e3, "ms", 20),
        row(f"the mesh of {site['nodes']:,} nodes in {site['zones']} zones", site["mesh_bytes"] / 2**20, "MiB", 150),
        row("pairs that a gang for one zone looks at", site["pairs_looked_at"], "", site["pairs_of_the_zone"]),
    ]


def page(lines: Sequence[Line]) -> Made:
    """What viewers cost, and how soon they see something."""
    [one] = lines
    cpu, ratio = one["cpu_for_viewers_spread"], one["filter_p99_ratio_spread"]
    rows = [
        [f"CPU for {one['viewers']:.0f} viewers, of a core (lowest–highest)",
         f"{one['cpu_for_viewers']:.1%} ({cpu[0]:.1%}–{cpu[1]:.1%})", f"{CPU_RATIO:.0%}",
         says(one["cpu_for_viewers"], CPU_RATIO, cpu)],
        row("/filter with 500 names without them, p99", one["filter_p99_without_ms"], "ms"),
        ["the same beside them, by without (lowest–highest)",
         f"{one['filter_p99_ratio']:.2f} ({ratio[0]:.2f}–{ratio[1]:.2f})", f"{FILTER_RATIO:g}",
         says(one["filter_p99_ratio"], FILTER_RATIO, ratio)],
        row(f"first picture of {one['nodes']:,} nodes, sent", one["first_bytes"] / 1024, "KiB", PAYLOAD_BYTES / 1024),
        row("sent to each viewer from then on", one["bytes_per_viewer_s"] / 1024, "KiB/s"),
    ]  # fmt: skip
    if "picture_ms" not in one:
        return _HEAD, [*rows, ["first picture painted", f"not measured: {one['not_painted']}", f"{PAINT_MS:g} ms", ""]]
    spread = one["picture_spread_ms"]
    shown = f"{one['picture_ms']:.0f} ms ({spread[0]:.0f}–{spread[1]:.0f})"
    return _HEAD, [
        *rows,
        row("first paint in Chromium", one["first_paint_ms"], "ms", PAINT_MS),
        ["queue and zones painted", shown, f"{PAINT_MS:g} ms", says(one["picture_ms"], PAINT_MS, spread)],
    ]


def simulated(lines: Sequence[Line]) -> Made:
    """What a large scenario costs under each policy, and what came out."""
    head = (
        "policy",
        "jobs that ended",
        "wall time",
        "CPU",
        "memory at most",
        "JCT mean / p50 / p99",
        "GPUs",
        "goal",
        "",
    )
    return head, [
        [
            str(one["policy"]),
            f"{one['completed']:,} of {one['jobs']:,}",
            f"{one['wall_s'] / 60:.1f} min",
            f"{one['cpu_s'] / 60:.1f} min",
            f"{one['peak_mib']:,} MiB",
            " / ".join(f"{one[name]:,.0f}" for name in ("jct_mean_s", "jct_p50_s", "jct_p99_s")) + " s",
            NO_GOAL if one["gpu_requested_ratio"] is None else f"{one['gpu_requested_ratio']:.0%}",
            f"{GOAL_S / 60:g} min",
            says(one["wall_s"], GOAL_S),
        ]
        for one in lines
    ]


def _with_unit(value: float, unit: str) -> str:
    """Three digits that count, and the unit.

    >>> _with_unit(0.06623, "ms"), _with_unit(215.4, "MiB"), _with_unit(1.0, ""), _with_unit(12345, "")
    ('0.0662 ms', '215 MiB', '1', '12,345')
    """
    text = f"{round(value):,}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


TABLES: Mapping[str, Callable[[Sequence[Line]], Made]] = {
    "http": http,
    "http_cpu": http_cpu,
    "planner": planner,
    "sync": sync,
    "kube_client": kube_client,
    "scale": scale,
    "soak": soak,
    "maddash": maddash,
    "page": page,
    "simulated": simulated,
}
"""benchmark → its table"""
