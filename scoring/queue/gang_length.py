"""Which length a gang has, of all that is known: what is nearer to the run at hand wins.

Rule, first that there is: its reports, which measure this very run; what its user declares, as this run may be unlike
those before; what former runs show; a limit alone. Whatever it is, a limit cuts it, because it ends the run.
"""

from scoring.feasibility.quorum import quorum_of
from scoring.lengths.declared import EXPECTED_DURATION, declared_length, duration_s
from scoring.lengths.fingerprint import Fingerprint, fingerprint
from scoring.lengths.former_runs import FormerRuns
from scoring.lengths.length import Length
from scoring.model import Gang, Phase
from scoring.queue.states import JobState, state_of

_MOST_TEMPLATES = 8  # Of one gang that count: one for each role


def length_of(
    gang: Gang, former: FormerRuns, *, reported: Length | None = None, owner_limit_s: float | None = None
) -> Length | None:
    """The gang's length; `None`: nothing is known. `owner_limit_s`: activeDeadlineSeconds of its job. Cost: O(members).

    >>> from tests.builders import gang
    >>> said = gang("g", 2, options={"expected-duration": "1h"})
    >>> length_of(said, FormerRuns()).quantiles_s[0], length_of(said, FormerRuns(), owner_limit_s=60.0).source.value
    (3600.0, 'limit')
    >>> length_of(gang("g", 2), FormerRuns()) is None
    True
    """
    limits = [limit_s for limit_s in (owner_limit_s, *(pod.limit_s for pod in gang.members)) if limit_s is not None]
    limit_s = min(limits, default=None)
    expected_s = expected_duration_s(gang)
    if reported is None and expected_s is None:
        reported = former.length(fingerprint_of(gang))
    if reported is None:
        return declared_length(expected_s, limit_s)
    return reported if limit_s is None else reported.cut(limit_s)


def expected_duration_s(gang: Gang) -> float | None:
    """What annotation `netgang.io/expected-duration` says; `None`: nothing, or nothing that can be read."""
    text = next((value for name, value in gang.options if name == EXPECTED_DURATION), None)
    if text is None:
        return None
    try:
        return duration_s(text)
    except ValueError:
        return None  # `scoring.model.policy.gang_options` says so


def fingerprint_of(gang: Gang) -> Fingerprint:
    """By what former runs of the gang's job are found. How many members it has does not count: it may change.

    >>> from tests.builders import gang
    >>> fingerprint_of(gang("train-1", 2)) == fingerprint_of(gang("train-2", 3))
    True
    """
    namespace, _, group = gang.key.partition("/")
    owner = gang.members[0].owner if gang.members else None
    kind, name = ("", group) if owner is None else (".".join(reversed(owner.group_kind)), owner.name)
    templates = sorted({pod.template for pod in gang.members})[:_MOST_TEMPLATES]
    return fingerprint(namespace, kind, name, "".join(templates))


def has_ended_well(gang: Gang) -> bool:
    """Whether the run is over as it was meant to be: its workers are done, and each index has succeeded. O(n log n).

    An index that failed and succeeded when it was run again has succeeded.

    >>> from tests.builders import gang, pod
    >>> from dataclasses import replace
    >>> one, two, again = (pod(name, node="n1", index=at) for name, at in (("a", 0), ("b", 1), ("c", 1)))
    >>> one, again = (replace(pod, phase=Phase.SUCCEEDED) for pod in (one, again))
    >>> two = replace(two, phase=Phase.FAILED)
    >>> [has_ended_well(gang("g", members=some)) for some in ([one], [one, two], [one, two, again])]
    [True, False, True]
    """
    if state_of(gang, quorum_of(gang), starving=False) is not JobState.COMPLETED:
        return False
    phases = [((pod.role, pod.index), pod.phase) for pod in gang.members if pod.index is not None]
    succeeded = {key for key, phase in phases if phase is Phase.SUCCEEDED}
    return all(key in succeeded for key, phase in phases if phase is Phase.FAILED)
