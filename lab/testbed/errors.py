"""What can go wrong while a control plane is built or run; every message says what to do next.

ControlPlaneError
├── GoMissing       no usable `go` command: nothing can be built
├── BuildFailed     the Go compiler or the module download refused; keeps the end of its output
├── FetchFailed     an archive that tests run against could not be had; one line, and how to get it
├── PartDied        a child process ended by itself; keeps the end of its log
├── NotReady        a readiness endpoint stayed silent for the whole limit
├── WaitExpired     an awaited state of the cluster did not come; says what was seen last
└── ApiRefused      the API server answered with an error status
"""


class ControlPlaneError(Exception):
    """The control plane could not do what it was asked."""


class GoMissing(ControlPlaneError):
    """There is no `go` command, or it is too old to build the programs."""


class BuildFailed(ControlPlaneError):
    """`go` refused to download or to build; the message ends with its last lines."""


class FetchFailed(ControlPlaneError):
    """A package manager is missing or refused; the message is one line and says what to do."""


class PartDied(ControlPlaneError):
    """A child process ended although it was not stopped."""


class NotReady(ControlPlaneError):
    """A part did not become ready within its limit."""


class WaitExpired(ControlPlaneError):
    """A state of the cluster that was waited for did not come within the limit."""


class ApiRefused(ControlPlaneError):
    """The API server answered `status` (an HTTP code) with `message` to `request` (method and path)."""

    def __init__(self, *, status: int, message: str, request: str) -> None:
        super().__init__(f"{request}: {status} {message}")
        self.status = status
        self.message = message
        self.request = request
