"""What an object is called, read from its JSON whatever else is in it: only what the API server itself writes.

So it is known of every unreadable object which one it is: what was kept of it is forgotten, and an Event names it.
"""

import msgspec

from extender.convert.decode import decoded


class Head(msgspec.Struct, gc=False):
    """The part of `metadata` that every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = msgspec.field(name="resourceVersion", default="")

    @property
    def key(self) -> str:
        """What a sink calls the object; empty: it has no name."""
        return object_key(self.namespace, self.name)


class Headed(msgspec.Struct):
    """An object of any kind, as far as its head."""

    metadata: Head


_HEADED = msgspec.json.Decoder(Headed)


def head_of(raw: bytes) -> Head | None:
    """The object's head; `None`: even that cannot be read.

    >>> head_of(b'{"metadata": {"namespace": "team-a", "name": "w-0", "labels": {"a": 7}}, "spec": []}').key
    'team-a/w-0'
    >>> head_of(b'{"metadata": []}') is None
    True
    """
    try:
        return decoded(_HEADED, raw).metadata
    except (msgspec.MsgspecError, UnicodeError):
        return None


def object_key(namespace: str, name: str) -> str:
    """What a sink calls an object of its kind: `namespace/name`, for kinds outside namespaces the name."""
    return f"{namespace}/{name}" if namespace else name
