"""The cluster in memory: one writer (`cluster`), fed by reflectors through sinks, read as immutable snapshots.

Read `cluster` first; `nodes`, `pods`, `gangs`, `usage` and `decisions` are the parts it keeps equal to the API server.
"""

from extender.cache.cluster import ClusterCache
from extender.cache.sinks import Sink

__all__ = ["ClusterCache", "Sink"]
