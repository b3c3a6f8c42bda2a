"""Settings of the decision log: what `netgang replay` reads, and its bounds (docs/how-to/replay.md)."""

from pydantic import Field

from extender.settings.types import Section


class RecordSettings(Section):
    """What went into each decision, kept in memory and given out at `/v1/record`."""

    enabled: bool = False
    """Keep it. It costs a thread about as much CPU as planning does."""
    most_mib: int = Field(default=16, ge=1, le=1024)
    """Compressed size of what is kept, in MiB; the oldest goes first. 16 MiB are hours of a busy cluster."""
