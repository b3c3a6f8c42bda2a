"""Settings of lengths: whether netgang knows how long gangs run (docs/how-to/job-lengths.md)."""

from extender.settings.types import Section


class LengthSettings(Section):
    """How long gangs run (docs/how-to/job-lengths.md)."""

    enabled: bool = False
    """Know each gang's length: what its user declares (annotation `netgang.io/expected-duration`), its deadline, what
    its former runs show, and what its reports say; needs manifests/components/lengths to keep the former runs."""
