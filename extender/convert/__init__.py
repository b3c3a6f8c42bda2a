"""Raw JSON of API objects → records of `scoring.model`: the one place that knows the API's fields.

Rule: pure functions, ValueError with the field's name for what cannot be read, everything ambiguous settled here.
"""

from extender.convert.nodes import daemon_set_from_json, node_from_json
from extender.convert.pod import NUDGE_ANNOTATION, pod_from_json
from extender.convert.podgroups import pod_group_from_json

__all__ = ["NUDGE_ANNOTATION", "daemon_set_from_json", "node_from_json", "pod_from_json", "pod_group_from_json"]
