"""When a gang is expected to start, as documents show it."""

from extender.schemas import expected_start as schema
from scoring.explain.expected_words import expected_text
from scoring.plan.expected import AnyStart, Calibration, ExpectedStart, Result


def expected_start_document(one: AnyStart | None, *, now_s: float) -> schema.ExpectedStart | None:
    """What is expected; null: the gang does not wait, or was not looked at yet."""
    if one is None:
        return None
    text = expected_text(one, now_s=now_s)
    if isinstance(one, ExpectedStart):
        return schema.ExpectedStart.copied(one, unknown=None, text=text)
    return schema.ExpectedStart(None, None, None, one.about, promised=False, unknown=one.why.name, text=text)


def interval_counts_document(known: Calibration | None) -> schema.IntervalCounts | None:
    """How often intervals were right; null: there are none."""
    if known is None or not known.known:
        return None
    return schema.IntervalCounts(**{result.value: known.results[result] for result in Result})
