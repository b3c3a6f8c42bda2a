"""The list of what netgang's image contains of Python packages, as CycloneDX."""

import json
import uuid
from datetime import UTC, datetime

_OURS = uuid.UUID("5f0f4f0e-2b0c-5d0a-9b53-6e657467616e")  # the name space of our serial numbers


def steady(exported: str, *, epoch_s: int) -> str:
    """What `uv export` wrote, with the release's time, and a serial number that follows from the content."""
    document = json.loads(exported)
    document["metadata"]["timestamp"] = datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    del document["serialNumber"]
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(_OURS, json.dumps(document, sort_keys=True))}"
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
