"""What every schema is."""

import msgspec


class Record(msgspec.Struct):
    """A JSON object."""
