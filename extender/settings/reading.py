"""Where values of settings come from, how they become one record, and how a mistake in them is reported.

This knows no setting by name: the records' types and bounds say what is accepted. Rules: mappings are merged name by
name, lists are replaced whole; a name that is none, or in a record's `fixed`, is refused; every refusal is one line
with the setting, where it was set, its value, what is accepted.
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import EnumMeta
from functools import reduce
from math import isfinite
from operator import getitem
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml
from msgspec.structs import fields, replace

from extender.errors import ConfigError

ENV_PREFIX = "NETGANG_"
NOT_SETTINGS = ("NETGANG_HELM", "NETGANG_KUBECTL", "NETGANG_TESTBED", "NETGANG_TOKEN", "NETGANG_URL")
"""Environment names (and beginnings of names) that belong to the tests, and to commands that ask a running netgang."""

_USER = re.compile(r"//[^/@\s]+@")  # User name and password in an address: never repeated in a text
_BOUNDS: Final = {">": "greater than", "<": "less than"}
_TYPES: Final = {"int": "integer", "float": "number", "bool": "boolean", "str": "string"}

Layer: TypeAlias = tuple[str, Mapping[str, Any]]  # Where values come from, in words, and the values
Place: TypeAlias = tuple[str | int, ...]  # Names of settings and of a mapping's keys, numbers of a list's entries
Text: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
_Record = TypeVar("_Record", bound=msgspec.Struct)


class Section(msgspec.Struct, frozen=True):
    """A group of settings; what stands below a name explains it; what `__post_init__` says of "name: " is about that.

    A record may have `written`, which makes a mapping (or the record) of another form of it.
    """


def read_record(
    base: _Record, values: Mapping[str, Any], layers: Sequence[Layer] = (), *, fixed: bool = False
) -> _Record:
    """`base` with these values, which `layers` hold, strongest first. ConfigError: all that is wrong, a line each."""
    reader = _Reader(layers, fixed=fixed)
    changed: _Record = reader.record(type(base), values, base, ())
    if reader.mistakes:
        raise ConfigError("\n".join(reader.mistakes))
    return changed


class _Reader:
    def __init__(self, layers: Sequence[Layer], *, fixed: bool) -> None:
        self.mistakes: list[str] = []
        self._layers, self._fixed = layers, fixed

    def value(self, kind: Any, value: Any, base: Any, place: Place) -> Any:
        """The value as `kind` has it; what a record's value does not say is as in `base`."""
        bare, inner = _bare(kind), get_args(_bare(kind))
        origin = get_origin(bare)
        if origin in (Union, UnionType):
            others = [variant for variant in inner if variant is not NoneType]
            if value is None and len(others) < len(inner):
                return None
            if len(others) == 1:
                return self.value(others[0], value, base, place)
            if isinstance(value, tuple(others)):
                return value
            kinds = {get_args(get_type_hints(variant)["kind"])[0]: variant for variant in others}
            chosen = kinds.get(str(value.get("kind"))) if isinstance(value, Mapping) else None
            if chosen is None:
                return self._refuse(place, value, f"kind must be one of {', '.join(kinds)}")
            return self.record(chosen, value, None, place)
        if origin in (tuple, frozenset):
            return origin(self._entries(kind, inner[0], value, place))
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping(inner[0], inner[1], value, place)
        if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
            return self.record(bare, value, base, place)
        return self._leaf(kind, bare, value, place)

    def record(self, kind: Any, value: Any, base: Any, place: Place) -> Any:
        before = len(self.mistakes)
        try:
            given = kind.written(value) if hasattr(kind, "written") else value
            if isinstance(given, kind):
                return given
            if not isinstance(given, Mapping):
                return self._refuse(place, value, "must be names and values")
            own, hints = {field.name: field for field in fields(kind)}, get_type_hints(kind, include_extras=True)
            hidden: frozenset[str] = frozenset() if self._fixed else getattr(kind, "fixed", frozenset())
            values = {}
            for name, raw in given.items():
                if name not in own or name in hidden:
                    self._refuse((*place, name), msgspec.UNSET, unknown(name, own.keys() - hidden))
                else:
                    old = own[name].default if base is None else getattr(base, name)
                    old = old if isinstance(old, msgspec.Struct) else None
                    values[name] = self.value(hints[name], raw, old, (*place, name))
            for name in (name for name, field in own.items() if base is None and field.required and name not in given):
                self._refuse((*place, name), msgspec.UNSET, "must be given")
            if len(self.mistakes) == before:
                return replace(base, **values) if base is not None else kind(**values)
        except ValueError as error:
            name, _, why = str(error).partition(": ")
            if name in kind.__struct_fields__:
                self._refuse((*place, name), value.get(name, msgspec.UNSET), why)
            else:
                self._refuse(place, value, str(error))
        return base

    def _entries(self, kind: Any, entry: Any, value: Any, place: Place) -> list[Any]:
        if isinstance(value, str) and (_bare(entry) is str or isinstance(_bare(entry), EnumMeta)):
            value = [part.strip() for part in value.split(",")]  # as the environment has it
        if not isinstance(value, list | tuple | set | frozenset):
            self._refuse(place, value, "must be a list")
            return []
        for bounds in (meta for meta in get_args(kind) if isinstance(meta, msgspec.Meta)):
            if len(value) < (bounds.min_length or 0):
                self._refuse(place, value, f"must have at least {bounds.min_length} entries")
            if len(value) > (bounds.max_length or len(value)):
                self._refuse(place, value, f"must have at most {bounds.max_length} entries")
        return [self.value(entry, raw, None, (*place, number)) for number, raw in enumerate(value)]

    def _mapping(self, key: Any, entry: Any, value: Any, place: Place) -> dict[Any, Any]:
        """One value in place of a mapping whose keys are a closed set stands for all of them; null is no value."""
        closed = isinstance(key, EnumMeta)
        if closed and not isinstance(value, Mapping):
            value = dict.fromkeys(key, value)
        if not isinstance(value, Mapping):
            self._refuse(place, value, "must be names and values")
            return {}
        for name in value.keys() - set(key) if closed else ():
            self._refuse((*place, name), msgspec.UNSET, unknown(name, key))
        return {
            self.value(key, name, None, place): self.value(entry, raw, None, (*place, str(name)))
            for name, raw in value.items()
            if not closed or (name in set(key) and raw is not None)
        }

    def _leaf(self, kind: Any, bare: Any, value: Any, place: Place) -> Any:
        closed = isinstance(bare, EnumMeta)
        if closed and isinstance(value, bool):  # YAML 1.1 reads `on` and `off` so, unless they are quoted
            value = "on" if value else "off"
        if bare is bool and isinstance(value, str):  # as the environment has it
            value = {"on": True, "yes": True, "off": False, "no": False}.get(value.lower(), value)
        if value != value:  # NaN, which is beyond no bound
            return self._refuse(place, value, "must be a finite number")
        try:
            converted = msgspec.convert(value, kind, strict=False, dec_hook=_path)
        except msgspec.ValidationError as error:
            accepted = [repr(str(member)) for member in bare] if closed else []
            one_of = " or ".join(part for part in (", ".join(accepted[:-1]), accepted[-1]) if part) if closed else ""
            rules = [meta.extra["must"] for meta in get_args(kind) if isinstance(meta, msgspec.Meta) and meta.extra]
            return self._refuse(place, value, f"must {[*rules, f'be {one_of}'][0]}" if rules or closed else _why(error))
        if isinstance(converted, float) and not isfinite(converted):
            return self._refuse(place, value, "must be a finite number")
        return converted

    def _refuse(self, place: Place, value: Any, text: str) -> None:
        if place:
            origin = next((f" (from {where})" for where, values in self._layers if _holds(values, place)), "")
            hidden = isinstance(value, Mapping | msgspec.UnsetType)
            shown = "" if hidden else f" = {_USER.sub('//…@', repr(value))}"
            text = f"{'.'.join(map(str, place))}{shown}{origin}: {text}"
        self.mistakes.append(text)


def _bare(kind: Any) -> Any:
    """A type without bounds and without its new name."""
    bare = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    return getattr(bare, "__supertype__", bare)


def _path(kind: type, value: Any) -> Path:
    if kind is not Path or not isinstance(value, str | Path):
        raise ValueError("must be a path")
    return Path(value)


def _why(error: msgspec.ValidationError) -> str:
    """What is accepted, in words, of msgspec's such as "Expected `int` >= 0" or "Expected `int`, got `str`"."""
    what = str(error)
    if (bound := re.fullmatch(r"Expected `\w+` ([<>]=?) (\S+)", what)) is not None:
        return f"must be {_BOUNDS[bound[1][0]]}{' or equal to' * (len(bound[1]) > 1)} {float(bound[2]):g}"
    if (length := re.fullmatch(r"Expected `str` of length (>=|<=) (\d+)", what)) is not None:
        return f"must have at {'least' if length[1] == '>=' else 'most'} {length[2]} characters"
    if (kind := re.match(r"Expected `(\w+)", what)) is not None and "got" in what:
        return f"must be a valid {_TYPES.get(kind[1], kind[1])}"
    return what


def _holds(values: Any, place: Place) -> bool:
    with suppress(KeyError, IndexError, TypeError):
        reduce(getitem, place, values)
        return True
    return False


def unknown(name: str, settings: Iterable[str]) -> str:
    """What to say about a name that is no setting: the nearest one there is, else all of them."""
    listed = sorted(settings)
    near = difflib.get_close_matches(str(name), listed, n=1)
    return f"no such setting; did you mean {near[0]}?" if near else f"no such setting; there are {', '.join(listed)}"


def read_file(file: Path) -> dict[str, Any]:
    """Values in a YAML or JSON file; an empty file holds none. ConfigError when it cannot be read."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"settings file {file} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        at = f", line {place.line + 1}," if place is not None else ""
        raise ConfigError(f"settings file {file}{at} is neither YAML nor JSON") from error
    if document is None:
        return {}
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
        raise ConfigError(f"settings file {file} must hold names and values, such as `port: 8888`")
    return document


def read_environment(settings: Iterable[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Values of NETGANG_… names; others are refused, and Kubernetes' own for a Service of this name explained."""
    names, ours = frozenset(settings), dict[str, str]()
    for variable, text in sorted(environment.items()):
        if not variable.upper().startswith(ENV_PREFIX) or variable.startswith(NOT_SETTINGS):
            continue
        name = variable.upper().removeprefix(ENV_PREFIX).lower().split("__")[0]
        if text.startswith("tcp://") or name.startswith(("service_host", "service_port", "port_")):
            raise ConfigError(
                f"{variable} was set by Kubernetes for a Service named netgang, and would be read as a setting: "
                "set `enableServiceLinks: false` in the pod"
            )
        if name not in names:
            raise ConfigError(f"{variable}: {unknown(name, names)}")
        ours[variable.upper()] = text
    return from_environment(ours)


def from_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Values of the NETGANG_… names among these; lists and mappings are JSON, all else is text for the setting."""
    values: dict[str, Any] = {}
    for name in (name for name in variables if name.startswith(ENV_PREFIX)):
        value: Any = variables[name]
        with suppress(ValueError):
            read = json.loads(value)
            value = read if isinstance(read, list | dict) or read is None else value
        values[name.removeprefix(ENV_PREFIX).lower().replace("__", ".")] = value
    return unfold(values)


def unfold(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn dotted names into nested mappings.

    >>> unfold({"port": 1, "network.mapping": [], "network.sources": []})
    {'port': 1, 'network': {'mapping': [], 'sources': []}}
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        nested = merge(nested, reduce(lambda branch, part: {part: branch}, reversed(name.split(".")), value))
    return nested


def merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """`low` with the values of `high` put over it."""
    merged = dict(low)
    for name, value in high.items():
        before = merged.get(name)
        merged[name] = merge(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return merged
