"""The rules of promlint (client_golang 1.14, `promtool check metrics` of Prometheus 2.42), for text that we expose.

Why here: promtool is not everywhere, and a metric's name is a promise that cannot be taken back. What promtool says is
checked as well, where it is.
"""

import re
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

_TYPES = ("counter", "gauge", "histogram", "summary")
_ABBREVIATIONS = ("s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d")
_NOT_BASE = re.compile(
    r"^((milli|micro|nano|pico|kilo|kibi|mega|mibi|giga|gibi|tera|tebi|peta|pebi|hecto|deca|deci|centi)"
    r"(amperes|bytes|celsius|grams|joules|kelvin|meters|metres|moles|seconds|volts)"
    r"|minutes?|hours?|days?|weeks?|fahrenheits?|rankines?|inch(es)?|yards?|miles?|feet|foot|bits?|calories?|pounds?"
    r"|ounces?)$"
)
_CAMEL = re.compile(r"[a-z][A-Z]")


def problems(text: str) -> Iterator[str]:
    """One sentence for each breach, with the metric's name."""
    types = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    for name, kind in types.items():
        parts = name.split("_")
        if not helps.get(name, "").strip():
            yield f"{name}: no help text"
        if (kind == "counter") is not name.endswith("_total"):
            yield f"{name}: suffix _total is for counters, and each has it"
        if kind != "histogram" and name.endswith("_bucket"):
            yield f"{name}: suffix of histograms"
        if kind not in ("histogram", "summary") and name.endswith(("_count", "_sum")):
            yield f"{name}: suffix of histograms and summaries"
        yield from (f"{name}: type {one} in the name" for one in _TYPES if one in parts[1:])
        yield from (f"{name}: abbreviated unit {one}" for one in _ABBREVIATIONS if one in parts[1:])
        yield from (f"{name}: {part} is no base unit" for part in parts if _NOT_BASE.match(part))
        if ":" in name or _CAMEL.search(name):
            yield f"{name}: only small letters, digits and _"
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "le" in sample.labels and family.type != "histogram":
                yield f"{sample.name}: label le is for histograms"
            if "quantile" in sample.labels and family.type != "summary":
                yield f"{sample.name}: label quantile is for summaries"
            yield from (f"{sample.name}: label {one} in camel case" for one in sample.labels if _CAMEL.search(one))
