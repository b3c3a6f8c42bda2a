"""What the page is given of the gang of a case: its row of the queue, and the document that its dialog asks for."""

from typing import Any

import msgspec

from extender.api.documents.explain import explain_document, preemption_document
from extender.api.documents.queue import queue_document
from extender.web.page_sections import queue_section
from scoring.explain.queue_report import report
from tests.scoring.explain.causes.cases import Case, explained


def row_of(case: Case) -> dict[str, Any]:
    """As the stream of the page has it."""
    _, made, state = explained(case)
    queue = queue_document(report(state, made, case.policy, now_s=0.0))
    section = msgspec.json.decode(msgspec.json.encode(queue_section(queue)))
    return next(row for row in section["rows"] if row["gang"] == case.wanted.key)


def document_of(case: Case) -> dict[str, Any]:
    """As GET /v1/explain has it."""
    found, _, state = explained(case)
    document = explain_document(found, preemption_document(state, case.wanted.key, blocked=None))
    return msgspec.json.decode(msgspec.json.encode(document))
