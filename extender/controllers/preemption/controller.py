"""Make whole gangs leave for a waiting one of higher priority (docs/explanation/preemption.md).

`scoring.preempt` decides which gangs leave for which, `restarts` how a gang leaves and comes back, and
`preemption_claims` how long its room is reserved; this module asks owners and budgets before. Rules:

- All or nothing: owners and disruption budgets of all gangs that would leave are asked first; then it is decided
  again, and they leave only if that is still the same.
- A gang for whose sake others would leave has to want that for `PATIENCE_S`: a job that ends frees its room pod by pod.
- What speaks against a gang has to stand for `PATIENCE_S` before others are looked for in its place: one that has just
  changed is none to be avoided, and no other gang is to leave because of it.
- While others leave for a gang, no further gang leaves for it. Nothing at all in the quiet time (docs/safety.md S11).
- A gang for which others had started to leave before a restart is decided on again like any other: by what is true
now, and not by what a former process noted (docs/safety.md S22).
"""

from dataclasses import dataclass, field

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.preemption.claims import PreemptionClaims
from extender.controllers.preemption.words import PreemptionWords
from extender.controllers.restart.controller import Restarts
from scoring.ids import GangKey
from scoring.model.policy import Preempting
from scoring.plan import Plan
from scoring.preempt import Preemption, preemption

PATIENCE_S = 3.0
SPARED_S = 60.0  # How long a gang that cannot leave is left out; then its owner and the budgets are asked again.
_LEVELS_S = 5.0  # So long an answer about service levels is good, whose hours run on while the plan stays


@dataclass(eq=False, repr=False)
class Preemptions(ControlLoop):
    """The one decision that is under way, and the gangs that must stay. Bounded by the gangs that exist."""

    context: ControllerContext
    restarts: Restarts
    _answer: tuple[Plan, object, Preemption | None] | None = field(default=None, init=False)
    """The last one, for which plan and to which question"""
    _answered_s: float = field(default=0.0, init=False)
    _objections: dict[GangKey, tuple[str, float]] = field(default_factory=dict, init=False)  # Gang → why, since when
    _spared: dict[GangKey, float] = field(default_factory=dict, init=False)
    """Gang that cannot leave → until when it is not asked again."""
    _wants: GangKey | None = field(default=None, init=False)
    """The gang for which others would leave, at the last look, and since when"""
    _wants_since_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        super().__init__(self.context)
        self.words = PreemptionWords(self.context)
        self.claims = PreemptionClaims(self.context, self.words, self.restarts)
        self._deciding = self.context.background("preempt")

    def look(self) -> None:
        """Once a second: follow what is under way; decide again if that is allowed."""
        now_s = self.context.clock.monotonic_s()
        self.words.tidy()
        self.claims.follow()
        self._spared = {key: until_s for key, until_s in self._spared.items() if until_s > now_s}
        if not self._deciding.busy and self.context.quiet.over:
            self._deciding.start(self._attempt(), "decide preemption")

    def forget(self) -> None:
        """Know nothing, as after a restart; a decision under way is given up."""
        self._deciding.cancel()
        self.claims.forget()
        self._wants = None
        self._objections.clear()
        self._spared.clear()

    async def _attempt(self) -> None:
        """Decide, ask owners and budgets, decide again, and start if it is still the same."""
        found = await self._decided()
        now_s = self.context.clock.monotonic_s()
        if found is None or found.gang != self._wants:
            self._wants, self._wants_since_s = (None if found is None else found.gang), now_s
            return
        if now_s - self._wants_since_s < PATIENCE_S or await self._is_refused(found):
            return
        again = await self._decided()
        if again is not None and (again.gang, again.pods) == (found.gang, found.pods):
            await self.claims.begin(again)

    async def _decided(self) -> Preemption | None:
        """Which gangs leave by the current plan; found once for each plan (docs/safety.md S15)."""
        planner, claims, now_s = self.context.planner, self.claims, self.context.clock.now_s()
        plan, snapshot, policy = planner.current, planner.snapshot, planner.policy
        if snapshot is None:
            return None
        asked = {"spared": frozenset(self._spared), "passed_over": claims.backing_off, "continued": claims.continued}
        good = policy.preemption is not Preempting.LEVELS or now_s < self._answered_s + _LEVELS_S
        if good and self._answer is not None and self._answer[0] is plan and self._answer[1] == asked:
            return self._answer[2]
        answer: Preemption | None = await planner.ask(preemption, snapshot, plan, policy, now_s=now_s, **asked)
        self._answer, self._answered_s = (plan, asked, answer), now_s
        return answer

    async def _is_refused(self, found: Preemption) -> bool:
        """Whether anything speaks against it; what has done so for long enough spares the gang that it is about."""
        objections: dict[GangKey, str] = {}
        for victim in found.victims:
            why = await self.restarts.obstacle(victim)
            if why is not None:
                objections[victim] = why
        if not objections and (why := await self.restarts.judge.together(found.victims)) is not None:
            objections[found.victims[-1]] = why
        now_s = self.context.clock.monotonic_s()
        before, self._objections = self._objections, {}
        for victim, why in objections.items():
            former, since_s = before.get(victim, ("", now_s))
            since_s = since_s if former == why else now_s
            if now_s - since_s < PATIENCE_S:
                self._objections[victim] = (why, since_s)
            else:
                self._spared[victim] = now_s + SPARED_S
                self.words.blocked(found, victim, why)
                self.context.telemetry.preempted("blocked")
        return bool(objections)
