"""Settings of the port at which training jobs report how they are doing (docs/how-to/reporting.md).

Rule: the port is for pods of every namespace, so it must not exist without a proof of the caller, and tokens must
not cross a network readable; what would be so is refused when the settings are read.
"""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from extender.settings.types import Section, names


class ReportSettings(Section):
    """Reports of training jobs, at a port of their own (docs/how-to/reporting.md)."""

    port: int | None = Field(default=None, ge=0, le=65535)
    """Port for `POST /v1/jobs/{namespace}/{name}/metrics` alone, under TLS if there is a `tls.cert_file`; no client
    certificate is asked for. `null`: none, jobs cannot report; 0: a free one."""
    host: str | None = Field(default=None, min_length=1)
    """Address of `port`; `null`: the same as `host` of the verbs."""
    service_accounts: bool = True
    """A pod may show the token of a service account of the job's own namespace (TokenReview)."""
    audiences: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(names)] = ()
    """What a token must have been made for, such as `netgang`; a pod's usual token is then refused. Empty: for the API
    server, as the usual one is (docs/how-to/reporting.md)."""
    secret_file: Path | None = None
    """File with a secret of at least 16 characters; with it as bearer token a caller may report for every job."""
    plain: bool = False
    """`host` may be more than the loopback although there is no TLS: something else protects the tokens."""
