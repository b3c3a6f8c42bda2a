"""Whose certificates measurement servers may have: one answer for all kinds of sources.

Rule: the system's certificates count; `ca_file` adds to them; only `insecure` switches the check off.
"""

import ssl
from pathlib import Path

from extender.errors import ConfigError


def verification(*, ca_file: Path | None, insecure: bool) -> ssl.SSLContext:
    """The TLS settings of a client. Errors: ConfigError for a `ca_file` that cannot be read or holds no certificate."""
    context = ssl.create_default_context()
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif ca_file is not None:
        try:
            context.load_verify_locations(cafile=str(ca_file))
        except OSError as error:  # ssl.SSLError is one
            raise ConfigError(f"ca_file {ca_file}: {error}; accepted: a PEM file") from error
    return context
