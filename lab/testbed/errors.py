"""What can go wrong while a control plane is built or run; every message says what to do next."""


class ControlPlaneError(Exception):
    """The control plane could not do what it was asked: a program cannot be built or ended, a state did not come."""


class NotReady(ControlPlaneError):
    """A part did not become ready within its limit."""


class ApiRefused(ControlPlaneError):
    """The API server answered `status` (an HTTP code) with `message` to `request` (method and path)."""

    def __init__(self, *, status: int, message: str, request: str) -> None:
        super().__init__(f"{request}: {status} {message}")
        self.status = status
        self.message = message
        self.request = request
