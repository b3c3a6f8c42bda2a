"""The closed set of reasons for which netgang says no.

Why closed and constant: kube-scheduler writes a refusal into the pod's status, that write comes back to it as an
event, and a text that differs from the last one makes it try again at once, hundreds of times a second
(kube-scheduler 1.36.3, measured). So no counts, names or times here; the particulars go to /v1/explain, Events, logs
and metrics. The same words appear in replies, logs, metric labels and Events.

Below each: what it means, and what to do; docs/reference/reasons.md is written from that.
"""

from enum import StrEnum
from typing import Final


class Reason(StrEnum):
    """Why a pod, a gang or a bind is refused. The value is what users read in `kubectl describe pod`."""

    # The gang waits.
    INCOMPLETE = "netgang: the gang waits until min-available of its pods exist and can start"
    """Too few members can start now: pods do not exist yet, were lost, wait at another controller's gate, or
    kube-scheduler places them on no node at all (a volume claim that does not exist). Without a gate, every new gang
    gets this reason while its controller creates its pods.

    Nothing while the pods are being created. If it stays, look why the job's controller has not made the rest (quota,
    admission, its own log), which controller opens the gate, or which claim `netgang explain` names."""
    NO_ROOM = "netgang: no zone has room for the whole gang now"
    """Some zone could take the gang if it were empty, none can now.

    Wait, or ask `netgang explain`: which resource is short, on which nodes, and what would get the gang admitted."""
    BEHIND = "netgang: the room is taken by a gang ahead in the queue"
    """It would fit into what is free, but a gang before it in the queue has been given that room.

    Wait; `/v1/queue` shows which gangs are ahead and why."""
    FILTERED = "netgang: kube-scheduler's other filters refuse nodes that have room"
    """There is room, but volumes, devices, affinity between pods, spreading or a plugin close it: none is modelled.

    The pods' Event FailedScheduling says which filter. Nothing is removed for it; the gang starts when they pass."""
    UNCOUNTED = "netgang: the gang asks for what no node's allocatable shows"
    """A resource, or a claim for devices: kube-scheduler alone counts it. There is no room for the rest, or it refused.

    Correct the name, install the device plugin, or wait for room. Nothing is reserved or removed for it."""
    BACKING_OFF = "netgang: the gang's last admission lapsed, it backs off"
    """It was admitted and did not come to quorum in time; it waits 10 s, 20 s, 40 s … before the next try.

    If it happens again, find out what kept its members: the Event AdmissionLapsed, kube-scheduler's own refusals."""
    NOT_PLANNED = "netgang: the gang is about to be planned"
    """The gang is new or has just changed; the next plan decides, or one of the next while hundreds of gangs are new.

    Nothing. Should it stay: the planner is behind (`netgang_plan_duration_seconds`) or stands still (`/readyz`)."""
    SPILL_WAIT = "netgang: no single zone has room, the gang waits before it is spread over zones"
    """Zone policy `preferred`: it may be spread over several zones, and first waits `spill_wait_s` for one.

    Wait, or shorten `spill_wait_s`."""
    OTHER_RUN = "netgang: an earlier run of the gang has not ended"
    """Another job has live pods under the same gang name, such as the CronJob's last one: one run at a time.

    Wait until it has ended, or give each run a gang name of its own; the Event GangWaiting says which two they are."""
    BAD_LINKS = "netgang: the gang refuses bad links, and its best nodes have some"
    """It has `netgang.io/bad-links: refuse`, and there is room only on nodes between which a link is bad.

    Mend the link that the Event names, or set the annotation to `avoid`: it is planned again with each measurement."""
    # The gang can never start as it is.
    IMPOSSIBLE = "netgang: the gang would not fit into the empty cluster"
    """Even in an empty cluster no allowed zone has room for the minimum.

    Ask for less, lower min-available, allow other zones, or add nodes. It does not keep others waiting."""
    NO_ALLOWED_ZONE = "netgang: none of the gang's allowed zones has nodes"
    """The zones that `netgang.io/zones` names have no nodes, or no node has the zone label.

    Correct the annotation, or label the nodes; `netgang doctor` says which are without."""
    INVALID_GROUP = "netgang: the gang's labels or pod templates are missing, bad or contradict each other"
    """What its pods say about their gang cannot be used, they differ in `schedulerName` or priority, or its job makes
    too few pods, or has their labels itself.

    Events GangInvalid and ProbableMistake, or `netgang explain`, name the field and what it should be."""
    # The pod may not go to this node, or to none of the nodes asked.
    OTHER_NODE_PLANNED = "netgang: another node is planned for this pod"
    """It is not the node that the plan has for the pod, or that the pod is on.

    Nothing; seen beside a node that passes."""
    OTHER_ZONE = "netgang: the gang's other members are in another zone"
    """The nodes are outside the zone of those that run; or a newer plan has moved the gang, and it is tried again.

    Look what keeps the pod out of that zone: its affinity, spread, volumes."""
    NODE_NOT_OFFERED = "netgang: no node that suits the gang was offered"
    """The planned node is not among those that kube-scheduler asks about: one of its other filters refuses it.

    Nothing at first: another node of the zone is planned. Should it stay, look at its volumes, spread, affinity."""
    SURPLUS = "netgang: the gang runs, no room for members beyond min-available"
    """The gang has what it needs; this member is one more than that.

    Nothing; it joins as soon as there is room."""
    RESERVED = "netgang: the room is reserved for a gang"
    """There is room, but it is reserved for a gang that is starting, starves, or for which others leave.

    Wait; `/v1/queue` (`held_nodes`, `makes_room`) shows for which."""
    # A bind is refused; the pod is tried again.
    NEVER_OFFERED = "netgang: this node was not offered to this pod"
    """/bind was asked for a pair of pod and node that /filter has not offered in the last ten minutes.

    Nothing after a restart of netgang: kube-scheduler asks again. Else: is it configured to ask /filter, too?"""
    NOT_OURS = "netgang: the pod is not one of netgang's, so netgang does not bind it"
    """/bind was asked for a pod whose `schedulerName` is not in `scheduler_names`.

    Add its `schedulerName` to `scheduler_names`, or give its profile a kube-scheduler without netgang's extender."""
    QUORUM_TIMEOUT = "netgang: the gang did not reach min-available in time"
    """Held for `hold_limit_s` (25 s), and the rest of the gang did not come to bind.

    Look at the members that did not come: their own Events say what kube-scheduler refused them."""
    ROOM_TAKEN = "netgang: a planned node lost its room before the gang was complete"
    """Pods of others took the room between plan and bind.

    Nothing; the gang is planned again. Often: keep others off these nodes (taint), or let them ask netgang, too."""
    NODE_LOST = "netgang: a planned node is gone or not ready"
    """A node of the gang went away or became not ready while its members were held.

    Nothing; the gang is planned on other nodes."""
    POD_DELETED = "netgang: the pod was deleted while it was held"
    """The pod was deleted while it waited at bind.

    Nothing; its owner makes another one."""
    POD_CHANGED = "netgang: the pod or its gang changed while it was held"
    """The pod was replaced, bound elsewhere, or asked for again (kube-scheduler restarted).

    Nothing; kube-scheduler tries again."""
    COMMIT_FAILED = "netgang: the API server did not confirm the binding"
    """The Binding was refused, or not answered within 15 s.

    Nothing for one; for many see the alert NetgangWritesFail: netgang's log has the API server's answer."""
    NOT_LEADER = "netgang: this replica is not the leader"
    """Two replicas, and this one only follows.

    Nothing during a take-over. Else the Service leads to the wrong pod: `kubectl get pods -A -L netgang.io/role`."""
    NOT_SYNCED = "netgang: the cluster state is not read yet"
    """netgang has just started and has not read all pods and nodes.

    Wait some seconds; should it stay, `/readyz` names what is not read: rights, or the API server."""
    UNKNOWN_POD = "netgang: the pod is not known yet"
    """kube-scheduler knows the pod, netgang's watch has not brought it.

    If it persists, check the pod watch (`netgang_watch_errors_total`) and the kubeconfig's cluster."""
    TOO_MANY_HELD = "netgang: too many binds are held"
    """As many bind calls of its namespace are held, or wait for the API server, as are free: 4,096 if no other has any.

    Nothing; they are tried again. Each is an open connection."""


NEVER_STARTS: Final = frozenset({Reason.INVALID_GROUP, Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})  # No time helps


class CauseReason(StrEnum):
    """What keeps a gang waiting, in CamelCase as conditions and Events have it."""

    UNAVAILABLE = "NodesUnavailable"
    """Nodes that it needs are cordoned, not ready, out of service or about to be removed."""
    TAINT = "TaintNotTolerated"
    """Nodes that it needs have a taint that its pods do not tolerate."""
    LABEL = "NodeLabelMissing"
    """Too few nodes, or none, have the labels of its nodeSelector or node affinity."""
    PORT = "HostPortTaken"
    """Its host port is taken on nodes that it needs, or it has more pods than nodes."""
    TOO_LARGE = "RequestTooLarge"
    """One pod asks for more than the largest node has."""
    ZONE_TOO_SMALL = "ZoneTooSmall"
    """Its minimum is more than any zone that it may use has, even empty: in resources, or in nodes for pods that must
    be apart from one another."""
    ZONES_EXCLUDED = "ZonesExcluded"
    """Annotation netgang.io/zones leaves out a zone that has room."""
    NO_ROOM = "InsufficientRoom"
    """Running pods, or what is kept for others, take the room, or the nodes have as many pods as they may have."""
    AHEAD = "RoomGivenAhead"
    """The room was given to gangs ahead of it in the queue, or is committed to gangs that are starting."""
    UNPLACEABLE = "PodNotPlaceable"
    """kube-scheduler places its pods on no node: a PersistentVolumeClaim or ResourceClaim is missing, or another reason
    of theirs."""
    GATE = "ForeignGate"
    """Its pods wait for another controller to remove a scheduling gate."""
    PODS_MISSING = "PodsMissing"
    """Fewer pods exist than its minimum, or members were on nodes that are gone and were not made again."""
    QUOTA = "ResourceQuota"
    """A ResourceQuota of its namespace forbids the missing pods."""
