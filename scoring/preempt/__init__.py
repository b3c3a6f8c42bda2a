"""Whole gangs of lower priority leave for a waiting gang that then fits (docs/explanation/preemption.md).

Why whole gangs: a member that is taken away stops all others and frees a fraction of the room that they go on using.
Rules: no gang leaves unless the waiting gang's minimum set then has a place; never a part of a gang; never one of equal
or higher priority; as few gangs as suffice. Nothing here removes anything.
"""
