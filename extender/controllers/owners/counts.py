"""What an owner of pods counts: how many it wants, how many have succeeded, how many are left to run.

docs/safety.md S8.

Why ask the owner: pods are deleted and collected, and only the owner still knows what they were. Pure: raw JSON in.
"""

from extender.controllers.owners.failure_budget import decoded


def has_succeeded(owner: bytes) -> bool:
    """Whether any of its pods has ended well: it finishes, and must not begin again (docs/safety.md S8).

    The pods themselves may be gone: those on a deleted node are collected, also when they have succeeded.

    >>> has_succeeded(b'{"status": {"succeeded": 1}}'), has_succeeded(b'{"status": {"active": 1}}')
    (True, False)
    >>> has_succeeded(b'{"status": {"replicaStatuses": {"Worker": {"succeeded": 2}}}}')
    True
    """
    status = decoded(owner).get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded")
    roles = (status.get("replicaStatuses") or {}).values()
    return bool(status.get("succeeded") or uncounted or any(one.get("succeeded") for one in roles))


def desired_pods(owner: bytes) -> int | None:
    """How many pods the owner wants, those that have succeeded included; `None`: it does not say.

    >>> desired_pods(b'{"spec": {"parallelism": 4, "completions": 2}}')
    2
    >>> desired_pods(b'{"spec": {"tfReplicaSpecs": {"ps": {"replicas": 2}, "Worker": {}}}}')
    3
    """
    spec = decoded(owner).get("spec") or {}
    roles = next((value for name, value in spec.items() if name.endswith("ReplicaSpecs")), None)
    if roles is not None:
        return sum(int(one.get("replicas", 1)) for one in roles.values())
    counts = [int(spec[name]) for name in ("parallelism", "completions", "replicas") if spec.get(name) is not None]
    return min(counts) if counts else None


def runs_left(job: bytes) -> int | None:
    """How many completions an Indexed Job is short of; `None`: none has succeeded, or it does not say.

    >>> runs_left(b'{"spec": {"completions": 4, "completionMode": "Indexed"}, "status": {"succeeded": 1}}')
    3
    >>> runs_left(b'{"spec": {"completions": 4, "completionMode": "Indexed"}}') is None
    True
    """
    found = decoded(job)
    spec, status = found.get("spec") or {}, found.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
    succeeded = int(status.get("succeeded") or 0) + len(uncounted)
    if not succeeded or spec.get("completionMode") != "Indexed" or spec.get("completions") is None:
        return None
    return max(int(spec["completions"]) - succeeded, 0)
