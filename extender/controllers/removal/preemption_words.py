"""Preemption for people: Events on PodGroups and pods, and a line for each decision."""

from collections.abc import Sequence

from extender.controllers.context import ControllerContext
from extender.controllers.recorder import Happening
from extender.runtime.decision_lines import Decision
from scoring import GangKey
from scoring.explain.words import gangs_seen_from, some
from scoring.model import Gang, Pod
from scoring.model.snapshot import Reservation
from scoring.preempt import Preemption

TIMEOUT_S = 600.0  # From the last pod that left: how long its room is kept


class PreemptionWords:
    """Writes Events, and remembers for /v1/explain why no gang leaves for another. Bounded by the gangs that exist."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._blocked: dict[GangKey, str] = {}

    def why_blocked(self, gang: GangKey) -> str | None:
        """Why the gang that would make room for this one has not left; `None`: nothing is known to be in the way."""
        return self._blocked.get(gang)

    def tidy(self) -> None:
        """Forget gangs that do not wait any more."""
        gangs = self._context.cache.snapshot().gangs
        self._blocked = {key: why for key, why in self._blocked.items() if key in gangs and gangs[key].pending}

    def begun(self, choice: Preemption) -> None:
        """Gangs are about to leave."""
        self._blocked.pop(choice.gang, None)
        pods, leave = len(choice.pods), "leaves" if len(choice.victims) == 1 else "leave"
        parts = {"gangs": float(len(choice.victims)), "pods": float(pods)}
        nodes = sorted(set(choice.assignment.values()))
        self._context.decided(Decision("preempt", gang=choice.gang, node=some(nodes), parts=parts))
        lower = "of lower priority"
        if choice.attained_h:
            lower = "of a higher service level" if len(choice.attained_h) == len(choice.victims) else "of lower rank"
        places = f"zone {', '.join(choice.zones)}" if any(choice.zones) else "its nodes"
        note = (
            f"{_gangs(choice.victims, choice.gang)} {lower} {leave} for this gang: {pods} pods in all. The room in "
            f"{places} is reserved for it until it has its nodes, or nothing has moved for {TIMEOUT_S:.0f} s."
        )
        self._about(choice.gang, Happening.PREEMPTS, note, ",".join(choice.victims))
        for victim in choice.victims:
            gang = self._context.cache.gang(victim)
            priority = f" (priority {gang.priority})" if gang is not None else ""
            self._context.decided(Decision("make-room", gang=victim, node=some([choice.gang])))
            note = (
                f"The whole gang{priority} leaves its place to {_gang(choice.gang, victim)}, which "
                f"{_than(choice, victim)} and had no room. Its owner recreates its pods; they wait in the queue."
            )
            self._about(victim, Happening.PREEMPTED, note, choice.gang)

    def stays(self, key: GangKey, victim: GangKey, why: str, *, refused: bool) -> None:
        """A gang that would make room must stay; `refused`: it had been asked to leave, and no other has left."""
        decision = Decision("make-room", gang=victim, reason=why)
        other = _gang(victim, key)
        note = f"The gang could have the place of {other}, which has less priority, but that one stays: {why}."
        if refused:
            decision = Decision("preempt", gang=key, reason=f"refused: {why}")
            note = f"{_gangs([victim], key)} did not leave for it after all: {why}. No other gang has left."
        self._context.decided(decision)
        self._blocked[key] = f"gang {victim} would make room, but stays: {why}"
        self._about(key, Happening.GANG_WAITING, note, f"{victim} {why}")

    def lapsed(self, gang: Gang, claim: Reservation, stayed: Sequence[Pod]) -> None:
        """The gang did not start in time; its room is everybody's again."""
        why = f"pod {stayed[0].key} and {len(stayed) - 1} others stayed" if stayed else "it did not start in time"
        self._blocked[gang.key] = f"{_gangs(claim.givers)} left for it, but {why}"
        self._context.decided(Decision("preempt", gang=gang.key, reason="lapsed"))
        note = f"{_gangs(claim.givers, gang.key)} left for this gang, but {why}: the reservation ends."
        self._about(gang.key, Happening.GANG_WAITING, note, "lapsed")

    def _about(self, key: GangKey, what: Happening, note: str, topic: str) -> None:
        gang = self._context.cache.gang(key)
        if gang is not None:
            self._context.post_gang_event(gang, what, note, topic, pods=gang.members[:1])


def why_it_leaves(choice: Preemption, victim: GangKey) -> str:
    """For the Events on its pods and its owner."""
    return f"it makes room for {_gang(choice.gang, victim)}, which {_than(choice, victim)}"


def _than(choice: Preemption, victim: GangKey) -> str:
    hours = choice.attained_h.get(victim)
    if hours is None:
        return f"has priority {choice.priority}"
    return f"is of a lower service level (this gang has had {hours:.3g} cluster-hours)"


def _gang(key: GangKey, reader: GangKey) -> str:
    return f"gang {key}" if key.partition("/")[0] == reader.partition("/")[0] else "another namespace's gang"


def _gangs(keys: Sequence[GangKey], reader: GangKey | None = None) -> str:
    """Gangs by name, the first few, for the beginning of a sentence; with a `reader` only those of its namespace.

    >>> _gangs([GangKey("a/x")]), _gangs([GangKey("a/x"), GangKey("a/y")]), _gangs([])
    ('Gang a/x', 'Gangs a/x, a/y', 'Other gangs')
    >>> _gangs([GangKey("a/x"), GangKey("b/y")], GangKey("a/z")), _gangs([GangKey("b/y")], GangKey("a/z"))
    ("Gang a/x and another namespace's gang", "Another namespace's gang")
    """
    if not keys:
        return "Other gangs"
    namespace = (reader or keys[0]).partition("/")[0]
    own = [key for key in keys if reader is None or key.partition("/")[0] == namespace]
    text = some(keys) if len(own) == len(keys) else gangs_seen_from(namespace, keys)
    return f"Gang{'' if len(own) == 1 else 's'} {text}" if own else f"{text[0].upper()}{text[1:]}"
