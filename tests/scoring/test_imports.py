"""What the deciding code may use of its libraries, where a list of forbidden modules cannot say it."""

import re
from pathlib import Path

import scoring

RECORDS = {"Struct", "field", "structs", "Meta", "Raw", "UNSET", "UnsetType"}
"""Of msgspec: records that are made by the dozen for each call, in a tenth of a dataclass's time, or are a schema; and
fields that a record has only where there is something in them"""


def test_msgspec_is_for_records_and_reads_and_writes_nothing() -> None:
    used = {
        (path.name, name)
        for path in Path(scoring.__path__[0]).rglob("*.py")
        for name in re.findall(r"\bmsgspec(?:\.| import )(\w+)", path.read_text())
    }
    assert used
    assert [(path, name) for path, name in sorted(used) if name not in RECORDS] == []
