"""The cluster in memory: one writer (`cluster`), fed by reflectors kind by kind, read as immutable snapshots.

Read `cluster` and `state` first; `nodes`, `pods`, `gangs` and `room` are kept equal to the API server.
"""

from extender.cache.cluster import ClusterCache
from extender.cache.state import Attained

__all__ = ["Attained", "ClusterCache"]
