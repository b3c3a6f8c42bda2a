"""The closed set of reasons for which netgang says no.

Why closed and constant: kube-scheduler writes a refusal into the pod's status, that write comes back to it as an
event, and a text that differs from the last one makes it try again at once, hundreds of times a second
(kube-scheduler 1.36.3, measured). So no counts, names or times here; the particulars go to /v1/explain, Events, logs
and metrics. The same words appear in replies, logs, metric labels and Events.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a pod, a gang or a bind is refused. The value is what users read in `kubectl describe pod`."""

    # The gang waits.
    INCOMPLETE = "netgang: the gang has fewer pods than its min-available"
    NO_ROOM = "netgang: no zone has room for the whole gang now"
    BEHIND = "netgang: the room is taken by a gang ahead in the queue"
    BACKING_OFF = "netgang: the gang's last admission lapsed, it backs off"
    NOT_PLANNED = "netgang: the gang is about to be planned"
    SPILL_WAIT = "netgang: no single zone has room, the gang waits before it is spread over zones"
    OVER_SHARE = "netgang: the gang's namespace would have more than its share of the cluster"
    NOT_TRIED = "netgang: the published algorithm tries only the heaviest gang now"
    # The gang can never start as it is.
    IMPOSSIBLE = "netgang: the gang would not fit into the empty cluster"
    NO_ALLOWED_ZONE = "netgang: none of the gang's allowed zones has nodes"
    INVALID_GROUP = "netgang: the gang's labels are missing, bad or contradict each other"
    MIXED_SCHEDULERS = "netgang: the gang's pods name different schedulers"
    MIXED_PRIORITIES = "netgang: the gang's pods have different priorities"
    # The pod may not go to this node, or to none of the nodes asked.
    OTHER_NODE_PLANNED = "netgang: another node is planned for this pod"
    OTHER_ZONE = "netgang: the gang's other members are in another zone"
    NODE_NOT_OFFERED = "netgang: no node that suits the gang was offered"
    SURPLUS = "netgang: the gang runs, no room for members beyond min-available"
    RESERVED = "netgang: the room is held for a gang"
    # A bind is refused; the pod is tried again.
    NEVER_OFFERED = "netgang: this node was not offered to this pod"
    QUORUM_TIMEOUT = "netgang: the gang did not reach min-available in time"
    ROOM_TAKEN = "netgang: a planned node lost its room before the gang was complete"
    NODE_LOST = "netgang: a planned node is gone or not ready"
    POD_DELETED = "netgang: the pod was deleted while it was held"
    POD_CHANGED = "netgang: the pod or its gang changed while it was held"
    COMMIT_FAILED = "netgang: the API server did not confirm the binding"
    NOT_LEADER = "netgang: this replica is not the leader"
    NOT_SYNCED = "netgang: the cluster state is not read yet"
    UNKNOWN_POD = "netgang: the pod is not known yet"
    TOO_MANY_HELD = "netgang: too many binds are held"
