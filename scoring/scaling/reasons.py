"""The closed set of reasons for which a job's worker count stays as it is.

Why constant texts: they stand in Events, metric labels and log fields, where a text that differs from the last one
makes a new entry; numbers and names go into the detail beside them.
"""

from enum import StrEnum


class No(StrEnum):
    """Why no job is shrunk, or why this one is not, or does not grow."""

    # There is nothing to do.
    DISABLED = "elastic scaling is switched off"
    NOBODY_WAITS = "no gang waits for room"
    ROOM_IS_COMING = "the gang fits as soon as pods that are being removed are gone"
    # The plan as a whole is not made.
    NO_JOB = "no elastic job may give up workers for the gang"
    NOT_ENOUGH = "the gang would not fit even if all of them gave up what they may"
    GIVEN_TO_OTHERS = "a gang ahead in the queue would take the room"
    NOT_HEAVIEST = "the gang is lighter than the heaviest job that runs"
    # This job keeps its workers, or its size.
    UNSAFE = "the job must not be resized"
    NOT_RUNNING = "the job does not run"
    RESIZING = "the job's last change is not carried out yet"
    COOL_DOWN = "the job was changed a short time ago"
    OVER_BUDGET = "the job was changed too often within the hour"
    HIGHER_PRIORITY = "the job has a higher priority than the gang"
    NOT_LIGHTER = "the job is heavier than the gang, or as heavy and earlier"
    AT_MINIMUM = "the job has its minimum of workers"
    ELSEWHERE = "the job's highest workers are on no node that the gang may use"
    NOT_NEEDED = "others give up enough"
    # This job does not grow.
    AT_MAXIMUM = "the job has as many workers as it may or wants to have"
    STILL_STARTING = "workers that the job wants already have no nodes yet"
    NO_ROOM = "no node of the job's zone has room for another worker"
    ROOM_IS_WANTED = "the room is reserved, or about to be free, for a gang that waits"
    OVER_SHARE = "the job's namespace would have more than its share of the cluster"
