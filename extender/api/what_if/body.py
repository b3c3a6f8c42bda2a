"""The body of `POST /v1/what-if`: a list of changes, as `scoring.what_if.changes` defines them."""

import re

import msgspec

from scoring.what_if.changes import Change, MisfitError, WhatIf


def read_changes(body: bytes | str) -> tuple[Change, ...]:
    """The changes of a body. Errors: MisfitError names the field that is wrong.

    >>> read_changes('{"changes": [{"change": "end-job", "job": "team/a"}]}')
    (JobEnds(job='team/a'),)
    >>> read_changes('{"changes": [{"change": "end-job", "job": 1}]}')
    Traceback (most recent call last):
    ...
    scoring.what_if.changes.MisfitError: changes.0.job: Expected `str`, got `int`
    """
    try:
        return msgspec.json.decode(body, type=WhatIf).changes
    except msgspec.ValidationError as error:
        what, _, place = str(error).rpartition(" - at `$")
        field = re.sub(r"\[(\d+)\]", r".\1", place).replace("[...]", "").strip(".`")
        raise MisfitError(f"{field or 'body'}: {what or error}") from error
    except msgspec.DecodeError as error:
        raise MisfitError(f"body: not JSON: {error}") from error
