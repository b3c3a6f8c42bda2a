"""When a gang is expected to start, as documents show it."""

from extender.schemas import expected_start as schema
from scoring.explain.words import expected_text
from scoring.plan.expected_starts import ExpectedStart


def expected_start_document(one: ExpectedStart | None, *, now_s: float) -> schema.ExpectedStart | None:
    """What is expected; null: the gang does not wait, or was not looked at yet."""
    if one is None:
        return None
    why = one.unknown.name if one.unknown is not None else None
    return schema.ExpectedStart.copied(one, unknown=why, text=expected_text(one, now_s=now_s))
