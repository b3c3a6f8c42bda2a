"""Which waiting gangs ask an autoscaler for nodes. Other packages import from here."""

from scoring.provisioning.requests import OVER, AskingLimits, Create, Delete, Outcome, Request, Step
from scoring.provisioning.steps import steps_of
from scoring.provisioning.wish import MOST_KINDS, WANTS_NODES, Hindrance, fingerprint_of, hindrance_of

__all__ = [
    "MOST_KINDS",
    "OVER",
    "WANTS_NODES",
    "AskingLimits",
    "Create",
    "Delete",
    "Hindrance",
    "Outcome",
    "Request",
    "Step",
    "fingerprint_of",
    "hindrance_of",
    "steps_of",
]
