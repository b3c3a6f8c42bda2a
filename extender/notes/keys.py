"""The keys by which notes are signed: two files of one directory, which is a mounted Secret (docs/reference/notes.md).

Rule: they are read once, at start. Without the files a process signs with a key that ends with it, and says so.
"""

import logging
import secrets
from pathlib import Path
from typing import Final

from extender.errors import ConfigError
from extender.notes.signatures import Notes

KEY_FILE: Final = "key"
FORMER_KEY_FILE: Final = "former-key"
LEAST_BYTES: Final = 16

_log = logging.getLogger(__name__)


def notes_of(directory: Path) -> Notes:
    """Notes that are signed with the keys in there. Errors: ConfigError for one that is no key, or cannot be read."""
    key = _key_in(directory / KEY_FILE)
    if key is None:
        problem = f"there is no key in {directory / KEY_FILE}: mount a Secret with one (docs/reference/notes.md)"
        _log.warning("notes do not outlive this process, so no gang is suspended and no job resized: %s", problem)
        return Notes(secrets.token_bytes(32), problem=problem)
    return Notes(key, _key_in(directory / FORMER_KEY_FILE))


def _key_in(file: Path) -> bytes | None:
    try:
        key = file.read_bytes().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"note_keys_dir: {file} cannot be read: {error.strerror}") from error
    if len(key) < LEAST_BYTES:
        raise ConfigError(f"note_keys_dir: {file} must hold at least {LEAST_BYTES} bytes that nobody can guess")
    return key
