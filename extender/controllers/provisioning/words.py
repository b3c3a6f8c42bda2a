"""What an autoscaler was asked for a gang, and what it said, in a sentence for people."""

from scoring.explain.words import duration_text, zone_text
from scoring.provisioning.decide import Hindrance
from scoring.provisioning.requests import OVER, AskingLimits, Outcome, Request

_SAYS = {
    # outcome → what the autoscaler makes of the request
    Outcome.ASKED: "no autoscaler has taken it up yet",
    Outcome.ACCEPTED: "the autoscaler has taken it up",
    Outcome.PROVISIONED: "the autoscaler says that the room is there or on its way",
    Outcome.NOT_FOUND: "the autoscaler has found no such room",
    Outcome.FAILED: "the autoscaler has failed",
    Outcome.EXPIRED: "the autoscaler keeps the room for it no longer (BookingExpired)",
    Outcome.REVOKED: "the autoscaler has taken it back (CapacityRevoked)",
}


def said_of(request: Request, limits: AskingLimits, *, now_s: float) -> str:
    """What there is to say of a gang's request.

    >>> from scoring.ids import GangKey, ZoneName
    >>> asked = Request("netgang-g-1", GangKey("team/g"), "f", zones=(ZoneName("A"),), since_s=100.0)
    >>> said_of(asked, AskingLimits(), now_s=130.0)
    'nodes in zone A were asked for with ProvisioningRequest netgang-g-1; for 30 s no autoscaler has taken it up yet'
    """
    where = f" in {' or '.join(map(zone_text, request.zones))}" if request.zones else ""
    asked = f"nodes{where} were asked for with ProvisioningRequest {request.name}"
    since = f"for {duration_text(now_s - request.since_s)} " if request.outcome is Outcome.ASKED else ""
    own = f": {request.message.rstrip('.')}" if request.message else ""
    again = f"; {_again(request, limits, now_s=now_s)}" if request.outcome in OVER else ""
    return f"{asked}; {since}{_SAYS[request.outcome]}{own}{again}"


def said_without(problem: str | Hindrance | None, limits: AskingLimits) -> str:
    """What there is to say of a gang that waits for nodes and has no request.

    >>> said_without("the cluster serves none", AskingLimits())
    'no nodes can be asked for: the cluster serves none'
    """
    if problem is not None:
        return f"no nodes can be asked for: {problem}"
    return (
        f"an autoscaler is asked for nodes once it has waited for {duration_text(limits.after_s)}, and for at most "
        f"{limits.most} gangs at a time, the first of the queue first"
    )


def _again(request: Request, limits: AskingLimits, *, now_s: float) -> str:
    left_s = request.since_s + limits.backoff_of(request.attempt) - now_s
    when = f"in {duration_text(left_s)}" if left_s > 0.0 else "soon"
    return f"attempt {request.attempt + 1} follows {when}"
