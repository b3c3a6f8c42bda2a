"""What can go wrong with the bed of namespaces; every message says what to do next.

BedError
├── BedUnavailable   the machine cannot have a bed: names the package, right or kernel option that is missing
└── NodeFailed       a node's own process ended, refused or stayed silent
"""


class BedError(Exception):
    """The bed could not do what it was asked."""


class BedUnavailable(BedError):
    """This machine cannot have a bed of namespaces."""


class NodeFailed(BedError):
    """The process in a node's namespace failed."""
