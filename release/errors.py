"""Why there is no release."""


class ReleaseError(Exception):
    """Says what is to be changed first."""
