"""What a job's members do while they run: train, stall when they change, and be done.

Rules: a job trains while all its parameter servers and its minimum of workers run; a change of its members, once it has
trained for `SETTLED_S`, stalls it (checkpoint, and its workers finding each other; the time to get the new pods is
simulated) and takes it back to its last checkpoint; a change during a stall restarts it.
"""

import asyncio
from collections.abc import Callable

from scoring.model import Role
from simulator.pods.member import NO_RATE, Story
from simulator.pods.training import Placed, Training
from simulator.speed import repeated_samples
from simulator.speed.stall import stages_of

SETTLED_S = 10.0
"""Members that come within this of the first step are part of the start, and stall nothing."""


class Trainer:
    """Training of all jobs; `complete` hears of each one that has seen all its samples."""

    def __init__(self, training: Training, complete: Callable[[Story], None]) -> None:
        self._training = training
        self._complete = complete

    def members_changed(self, story: Story) -> None:
        """Other members run: the job trains at another rate from now on, perhaps after a stall."""
        self.settle(story)
        now_s, at = _now_s(), story.placed()
        if story.began_s is not None and now_s > story.began_s + SETTLED_S:
            self._stall(story, at)
        if not story.trains_with(at):
            self._pause(story, None)
            return
        if story.began_s is None:
            story.began_s = now_s
        if now_s < story.stalled_until_s:
            self._pause(story, story.stalled_until_s)
        else:
            self._go_on(story, at)

    def settle(self, story: Story) -> None:
        """Count what was trained and used up to now."""
        now_s = _now_s()
        past_s = now_s - story.since_s
        if past_s > 0.0:
            story.trained = min(story.trained + story.rate.samples_per_s * past_s, story.job.work.samples)
            story.busy_core_s += story.rate.busy_cores * past_s
            workers = [one for (role, _), one in story.members.items() if role is not Role.PS and one.node is not None]
            story.worker_s += len(workers) * past_s
        story.since_s = now_s

    def stop(self, story: Story) -> None:
        """Count up to now; nothing goes on after that."""
        self.settle(story)
        self._pause(story, None)

    def _stall(self, story: Story, at: Placed) -> None:
        now_s, rate = _now_s(), story.rate
        if now_s >= story.stalled_until_s:
            story.resizes += 1
            if rate.step_samples:
                lost = repeated_samples(story.trained, rate.step_samples)
                story.trained -= lost
                story.stalled_s += lost / rate.samples_per_s
        stages = stages_of(len(at.workers))
        until_s = now_s + stages.flex_down_s + stages.ready_s
        story.stalled_s += until_s - max(now_s, story.stalled_until_s)
        story.stalled_until_s = until_s

    def _go_on(self, story: Story, at: Placed) -> None:
        story.rate = self._training(story.job, at)
        left = max(story.job.work.samples - story.trained, 0.0)
        self._alarm(story, _now_s() + left / story.rate.samples_per_s)

    def _pause(self, story: Story, until_s: float | None) -> None:
        story.rate = NO_RATE
        self._alarm(story, until_s)

    def _alarm(self, story: Story, at_s: float | None) -> None:
        if story.timer is not None:
            story.timer.cancel()
        loop = asyncio.get_running_loop()
        story.timer = None if at_s is None else loop.call_at(at_s, self._rings, story)

    def _rings(self, story: Story) -> None:
        """A stall is over, or all samples have been seen."""
        self.settle(story)
        story.timer = None
        if story.rate is NO_RATE:
            self._go_on(story, story.placed())
            return
        story.trained, story.rate = story.job.work.samples, NO_RATE
        self._complete(story)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
