"""Put the decision log together: what writes to it, and the address that serves it."""

from extender.decision_log.recorder import Recorder, Run, Step
from extender.runtime.telemetry import Telemetry
from extender.scheduling.bind.held_binds import Binds
from extender.scheduling.planning.loop import Planner
from extender.settings.settings import Settings
from scoring.feasibility.quorum import Quorum
from scoring.ids import GangKey
from scoring.model.snapshot import Snapshot
from scoring.permit.protocol import Event, Instruction
from scoring.permit.state import PermitState
from scoring.plan import Plan


def recorder_of(settings: Settings, planner: Planner, binds: Binds, telemetry: Telemetry) -> Recorder | None:
    """A recorder that hears of every decision; `None`: the settings want none."""
    if not settings.record.enabled:
        return None
    most_bytes = settings.record.most_mib * 2**20
    recorder = Recorder(planner.policy, most_bytes=most_bytes, lost=telemetry.record_lost)

    def ran(snapshot: Snapshot, at_s: float, previous: Plan, made: Plan) -> None:
        recorder.heard(Run(at_s, snapshot, previous, made))

    def stepped(
        gang: GangKey, before: PermitState, event: Event, quorum: Quorum, instructions: tuple[Instruction, ...]
    ) -> None:
        recorder.heard(Step(gang, before, event, quorum, instructions))

    planner.recorded, binds.recorded = ran, stepped
    return recorder
