"""The cluster in memory: one writer (`cluster`), fed by reflectors kind by kind, read as immutable snapshots."""

from extender.cache.cluster import ClusterCache
from extender.cache.state import Attained

__all__ = ["Attained", "ClusterCache"]
