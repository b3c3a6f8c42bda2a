"""What network a gang has, a part of /v1/explain, /v1/queue and /v1/jobs."""

from extender.schemas.record import Record


class WorstLink(Record):
    """The link with the fewest points; null: not known."""

    source: str
    target: str
    points: float  # 0 to 100.
    loss_ratio: float | None
    delay_ms: float | None  # One way.
    throughput_bps: float | None
    oldest_s: float | None  # Age of the oldest value measured on it.


class RunningNetwork(Record):
    """The network between the nodes of a gang that runs or is planned, by the data of `at_s`."""

    zones: tuple[str, ...]
    nodes: tuple[str, ...]  # By name, the first 64.
    of_nodes: int
    score: float | None  # Mean points (0 to 100) of its pairs of members; null: no two exchange data.
    worst: WorstLink | None
    score_at_start: float | None  # null: it did not start while this process led, or has no pairs.
    at_s: float  # Unix seconds.
