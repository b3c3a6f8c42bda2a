"""The planner: from a snapshot to a plan for all gangs together (`planner`)."""

from scoring.plan.cache import PlannerCache
from scoring.plan.planner import plan
from scoring.plan.result import Admission, Plan, Waiting
from scoring.plan.run import Run, begin_run, take_admissions, take_commitments, take_members

__all__ = [
    "Admission", "Plan", "PlannerCache", "Run", "Waiting", "begin_run", "plan", "take_admissions",
    "take_commitments", "take_members",
]  # fmt: skip
