"""Labels and annotations of a pod that are probably meant for netgang and are none that it reads.

Why: Kubernetes accepts any key, so a gang whose label is misspelt starts pod by pod, without a word. Rules: a key
counts as misspelt when it has one of our prefixes, or one like it, and a name that is none of ours but like one; or
when it is a label that belongs among the annotations, or the other way round. Other tools' keys are never reported.
Bounded (docs/safety.md S21): so many keys are looked at, and so many are named.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from extender.convert.pod.gang_labels import (
    MIN_AVAILABLE_LABEL,
    MIN_MEMBER_ANNOTATIONS,
    NAME_ANNOTATIONS,
    NAME_LABEL,
    POD_GROUP_LABEL,
)
from extender.convert.pod.roles import INDEX_ANNOTATION, OWN_PREFIX, ROLE_ANNOTATION
from scoring.model.nearest import nearest
from scoring.model.policy import KNOWN_OPTIONS

_MOST_KEYS: Final = 64
_MOST_NAMED: Final = 3
_KEY_CHARS: Final = 320  # What the API server accepts: a prefix of 253, a slash, a name of 63
_LABELS: Final = frozenset({POD_GROUP_LABEL, NAME_LABEL, MIN_AVAILABLE_LABEL})
_OPTIONS: Final = frozenset({*(OWN_PREFIX + name for name in KNOWN_OPTIONS), ROLE_ANNOTATION, INDEX_ANNOTATION})
_ANNOTATIONS: Final = frozenset({*NAME_ANNOTATIONS, *MIN_MEMBER_ANNOTATIONS, *_OPTIONS})
_WRITTEN_BY_US: Final = frozenset(OWN_PREFIX + name for name in ("role", "restart", "testpoint"))
"""Labels with our prefix that are no mistake."""
_PREFIXES: Final = frozenset(key.partition("/")[0] for key in (*_LABELS, *_ANNOTATIONS))

_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    # prefix → name after it → whether that is read of labels or of annotations
    prefix: {
        key.partition("/")[2]: form
        for form, keys in (("annotation", _ANNOTATIONS), ("label", _LABELS))
        for key in keys
        if key.partition("/")[0] == prefix
    }
    for prefix in _PREFIXES
}
_NOTHING: Final[tuple[str, ...]] = ()


def misspelt(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence for each key that is probably misspelt. Cost: a look-up for pods of a known template.

    >>> misspelt({"pod-group.scheduling.sigs.k8s.io/nmae": "g"}, {})
    ('label pod-group.scheduling.sigs.k8s.io/nmae: did you mean label pod-group.scheduling.sigs.k8s.io/name?',)
    >>> misspelt({"netgang.io/zones": "D"}, {})
    ('label netgang.io/zones: did you mean annotation netgang.io/zones?',)
    >>> misspelt({"app": "x", "pod-group.scheduling.sigs.k8s.io/name": "g"}, {"netgang.io/zones": "D"})
    ()
    """
    if len(labels) > _MOST_KEYS or len(annotations) > _MOST_KEYS:
        return _NOTHING
    return _of_keys(tuple(labels), tuple(annotations))


@lru_cache(maxsize=64)
def _of_keys(labels: tuple[str, ...], annotations: tuple[str, ...]) -> tuple[str, ...]:
    found = [_sentence("label", key, _LABELS | _WRITTEN_BY_US) for key in labels]
    found += [_sentence("annotation", key, _ANNOTATIONS) for key in annotations]
    return tuple([text for text in found if text])[:_MOST_NAMED] or _NOTHING


def _sentence(form: str, key: str, known: frozenset[str]) -> str:
    """What is wrong with the key; empty: nothing, or it is reported by the reader of options."""
    prefix, slash, name = key.partition("/")
    if not slash or key in known or len(key) > _KEY_CHARS:
        return ""
    if form == "annotation" and prefix + slash == OWN_PREFIX:
        return ""  # `gang_options` reports these, and netgang writes some itself
    meant = prefix if prefix in _PREFIXES else nearest(prefix, _PREFIXES)
    if meant is None:
        return ""
    names = _NAMES[meant]
    like = name if name in names else nearest(name, names)
    return f"{form} {key}: did you mean {names[like]} {meant}/{like}?" if like is not None else ""
