"""Drawings of docs/start/concepts.md, as SVG that needs nothing else and reads on light and on dark ground.

Why by a program: the five drawings share their shapes and colours, and a shape that is mended is mended everywhere.
Rule: colours are classes of one style sheet; nothing is loaded, no script, no font but the reader's own. `(x, y)` is
the upper left corner, in pixels.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise

_STYLE = """
 text { font: 13px system-ui, sans-serif; fill: #24292f }
 .small { font-size: 11px } .head { font-weight: 600 } .middle { text-anchor: middle }
 .in { fill: #fff; font-size: 11px; text-anchor: middle }
 .node { fill: #f6f8fa; stroke: #8c959f } .a { fill: #0969da } .b { fill: #bc4c00 } .c { fill: #1a7f37 }
 .zone { fill: none; stroke: #8c959f; stroke-dasharray: 5 4 }
 .free { fill: none; stroke: #8c959f; stroke-dasharray: 2 2 }
 .wait { fill-opacity: .25; stroke: #8c959f } .bar { fill-opacity: .35 }
 .line { stroke: #57606a; fill: none; stroke-width: 1.5 } .tip { fill: #57606a }
 .good { stroke: #1a7f37; stroke-width: 2; fill: none }
 .bad { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 6 3; fill: none } .badtext { fill: #cf222e }
 @media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .in { fill: #fff }
  .node { fill: #161b22; stroke: #6e7681 } .a { fill: #1f6feb } .b { fill: #bd561d } .c { fill: #238636 }
  .zone, .free, .wait { stroke: #6e7681 } .line { stroke: #8b949e } .tip { fill: #8b949e }
  .good { stroke: #3fb950 } .bad { stroke: #f85149 } .badtext { fill: #f85149 }
 }
"""
_POD = 24


def _picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return (
        f'{head} role="img">\n<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>'


def _line(kind: str, *points: tuple[float, float]) -> str:
    return f'<path d="M{" L".join(f"{x:g} {y:g}" for x, y in points)}" class="{kind}"/>'


def _arrow(x: float, y: float, to_x: float) -> str:
    """A level arrow."""
    tip = f'<path d="M{to_x:g} {y:g} l-8 -4 v8 z" class="tip"/>'
    return _line("line", (x, y), (to_x - 6, y)) + tip


def _pod(x: float, y: float, gang: str, name: str = "", *, waits: str = "") -> str:
    """One pod of gang a, b or c; nothing: a free place."""
    if not gang:
        return _box(x, y, _POD, _POD, "free")
    word = _text(x + _POD / 2, y + 16, name, "in" if not waits else "small middle")
    return _box(x, y, _POD, _POD, f"{gang} {waits}".strip()) + word


def _node(x: float, y: float, name: str, pods: Sequence[str]) -> str:
    """A node with a place for each of `pods`: colour and name such as `aA1`, empty where it is free."""
    width = len(pods) * (_POD + 6) + 6
    inside = [_pod(x + 6 + i * (_POD + 6), y + 22, pod[:1], pod[1:]) for i, pod in enumerate(pods)]
    return _box(x, y, width, _POD + 28, "node") + _text(x + 6, y + 15, name, "small") + "".join(inside)


def whole() -> str:
    """Two gangs of four and six places: one pod at a time, and whole gangs."""
    parts = [_text(10, 20, "one pod at a time", "head"), _text(400, 20, "whole or nothing", "head")]
    left = (("aA1", "bB1"), ("aA2", "bB2"), ("bB3", "aA3"))
    right = (("aA1", "aA2"), ("aA3", "aA4"), ("", ""))
    for x, nodes in ((10, left), (400, right)):
        parts += [_node(x + 84 * i, 34, f"n{i + 1}", pods) for i, pods in enumerate(nodes)]
    parts += [_text(10, 112, "wait:"), _pod(50, 96, "a", "A4", waits="wait"), _pod(80, 96, "b", "B4", waits="wait")]
    parts += [_text(400, 112, "at the gate:")]
    parts += [_pod(484 + 30 * i, 96, "b", f"B{i + 1}", waits="wait") for i in range(4)]
    parts += [
        _text(10, 146, "Each holds three places and waits for the", "badtext"),
        _text(10, 163, "fourth: six GPUs stay idle.", "badtext"),
        _text(400, 146, "A runs. B occupies nothing and starts when it"),
        _text(400, 163, "fits as a whole; two places are left for others."),
    ]
    return _picture(720, 176, "Two gangs of four pods on six places, pod by pod and whole", parts)


def zone() -> str:
    """A gang spread over zones, and in one zone away from a node with bad links."""
    parts = [_text(10, 20, "wherever there is room", "head"), _text(390, 20, "one zone, its best links", "head")]
    for x in (10, 390):
        parts += [_box(x, 32, 140, 150, "zone"), _box(x + 180, 32, 140, 150, "zone")]
        parts += [_text(x + 8, 176, "zone A", "small"), _text(x + 188, 176, "zone B", "small")]
    spread = (("aA1", ""), ("aA2", "aA3"), ("aA4", ""))
    near = (("", ""), ("aA1", "aA2"), ("aA3", "aA4"))
    where = {0: (16, 44), 1: (224, 44), 2: (224, 110)}
    for x, pods in ((10, spread), (390, near)):
        for number, (dx, dy) in where.items():
            parts.append(_node(x + dx - 10, dy, f"n{number + 1}", pods[number]))
    parts += [
        _node(16, 110, "n4", ["", ""]),
        _node(396, 110, "n4", ["", ""]),
        _line("bad", (82, 78), (214, 78)),
        _text(90, 70, "20 ms, 1 % loss", "small badtext"),
        _line("good", (640, 96), (640, 110)),
        _text(650, 106, "0.2 ms", "small"),
        _text(10, 206, "Every step of the training waits for the slowest link.", "badtext"),
        _text(390, 206, "Loss, delay and throughput of all links between"),
        _text(390, 223, "members count, in the ratio 20 : 40 : 40."),
    ]
    return _picture(720, 234, "A gang across two zones, and inside one", parts)


def queue() -> str:
    """The order by weight, back-fill, and a large gang that starves."""
    parts = [_text(10, 20, "nodes in use over time", "head")]
    base, top, left = 190, 40, 60
    parts += [_line("line", (left, top), (left, base), (700, base)), _text(10, 50, "all", "small")]
    parts += [_text(18, base, "none", "small"), _arrow(640, base, 702)]
    lanes = ((60, 150, 250, 420), (60, 140, 240, 340), (60, 170, 270, 390))  # where small gangs begin and end
    for lane, ends in enumerate(lanes):
        y = 70 + 40 * lane
        for begin, end in pairwise(ends):
            parts += [_box(begin + 2, y, end - begin - 4, 36, "c"), _text((begin + end) / 2, y + 23, "small", "in")]
        if ends[-1] < 420:
            parts.append(_box(ends[-1] + 2, y, 418 - ends[-1], 36, "free"))
    parts.append(_text(380, 133, "held", "small middle"))
    parts += [_box(424, 70, 200, 116, "b"), _text(524, 132, "large", "in")]
    parts += [
        _line("bad", (310, 30), (310, base + 6)),
        _text(316, 40, "large is STARVING: a zone is reserved", "small badtext"),
        _text(62, base + 20, "small gangs are heavier and go first;", "small"),
        _text(62, base + 36, "what fits beside a waiting one starts, too", "small"),
        _text(316, base + 20, "nothing else is admitted there; it starts when", "small"),
        _text(316, base + 36, "what ran there has ended", "small"),
    ]
    return _picture(720, 238, "Small gangs first, until the large one starves", parts)


def start() -> str:
    """From the gate to the Bindings, member by member."""
    steps = (("gate", 70, 190), ("filter", 230, 300), ("bind: held", 320, 0), ("bound", 520, 690))
    parts = [_text(10, 20, "how a gang of three starts", "head")]
    parts += [_text(x + 2, 44, name, "small") for name, x, _ in steps]
    at_bind = (330, 390, 510)
    for number in range(3):
        y = 56 + 34 * number
        late = at_bind[number]
        parts += [
            _pod(20, y, "a", f"A{number + 1}"),
            _box(70, y, 130, _POD, "a wait"),
            _text(80, y + 16, "waits", "small"),
        ]
        parts += [_box(204, y, late - 208, _POD, "node"), _text(210, y + 16, "one node offered", "small")]
        if late < 510:
            parts += [
                _box(late, y, 510 - late, _POD, "b bar"),
                _text(late + 8, y + 16, "held: no answer yet", "small"),
            ]
        parts += [_box(514, y, 180, _POD, "c"), _text(604, y + 16, f"on its node n{number + 1}", "in")]
    parts += [
        _line("line", (202, 50), (202, 166)),
        _text(120, 180, "admission: its places are reserved", "small"),
        _line("line", (512, 50), (512, 166)),
        _text(440, 180, "quorum: all Bindings are sent together", "small"),
        _text(
            10,
            206,
            "If the third does not come within 25 s, all three are answered with an error, nothing is bound, the",
        ),
        _text(10, 223, "gang backs off: 10 s, 20 s, 40 s … No other gang was given its places meanwhile."),
    ]
    return _picture(720, 234, "Gate, admission, held binds, quorum, Bindings", parts)


def elastic() -> str:
    """A job shrinks for a gang and grows back."""
    kept, given = ("aPS", "aW0", "aW1", "aW2"), ("aW3", "aW4", "aW5")
    frames = (
        ("H waits, and is heavier", given),
        ("L has given up three workers", ("bH1", "bH2", "bH3")),
        ("H is done, L has them again", given),
    )
    parts: list[str] = []
    for number, (words, second) in enumerate(frames):
        x = 10 + 240 * number
        parts += [_text(x, 20, words, "head"), _node(x, 66, "n1", kept), _node(x, 126, "n2", second)]
    parts += [
        _text(10, 48, "queue:", "small"),
        *(_pod(54 + 28 * i, 32, "b", f"H{i + 1}", waits="wait") for i in range(3)),
    ]
    parts += [_arrow(142, 106, 242), _arrow(382, 106, 482)]
    parts += [
        _text(10, 206, "L: a ps, which never leaves, and workers W0 to W5 with a minimum of two. The highest leave"),
        _text(
            10,
            223,
            "first, and only if H then starts. L gets its workers back before any job grows into idle room.",
        ),
    ]
    return _picture(720, 234, "A job shrinks for a heavier gang and grows back", parts)


PICTURES: Mapping[str, Callable[[], str]] = {
    # file below docs/pictures → its text
    "whole.svg": whole,
    "zone.svg": zone,
    "queue.svg": queue,
    "start.svg": start,
    "elastic.svg": elastic,
}
