"""What can go wrong with the bed of namespaces; every message says what to do next.

BedError
├── BedUnavailable   the machine cannot have a bed: names the package, right or kernel option that is missing
├── NotOurs          a namespace that this program did not make would have to be touched: nothing is
└── NodeFailed       a node's own process ended, refused or stayed silent
"""


class BedError(Exception):
    """The bed could not do what it was asked."""


class BedUnavailable(BedError):
    """This machine cannot have a bed of namespaces."""


class NotOurs(BedError):
    """Another program's namespace has the name, or the record of ours does not fit it any more."""


class NodeFailed(BedError):
    """The process in a node's namespace failed."""
