"""How much is taken at once: objects between two turns of the event loop, and objects on a page of a list.

By bytes as well, as tenants may write 1.5 MiB into an object. Rule: what is asked for next follows from the size of
what came last, so that no list is longer than memory, or than the loop can wait.
"""

from typing import Final

SLICE_OBJECTS: Final = 50
_SLICE_BYTES: Final = 256 * 1024  # about 1 ms of decoding; a slice ends at whichever comes first
_PAGE_BYTES: Final = 8 * 1024 * 1024  # about 10 ms to find where each object on it begins and ends


class Slice:
    """Says when the event loop must be given back: by objects and bytes, so that it needs no clock."""

    __slots__ = ("_bytes", "_objects")

    def __init__(self) -> None:
        self._objects = self._bytes = 0

    def ends(self, raw: bytes) -> bool:
        """Count one object; true when the slice is full, and the next one begins."""
        self._objects += 1
        self._bytes += len(raw)
        if self._objects < SLICE_OBJECTS and self._bytes < _SLICE_BYTES:
            return False
        self._objects = self._bytes = 0
        return True


class PageSize:
    """How many objects to ask for."""

    __slots__ = ("_most", "objects")

    def __init__(self, most: int) -> None:
        self._most = most
        self.objects = most

    def came(self, size_bytes: int) -> None:
        """A page of as many objects had so many bytes.

        >>> page = PageSize(500)
        >>> page.came(80 * 1024 * 1024), page.objects
        (None, 50)
        >>> page.came(1000), page.objects
        (None, 100)
        """
        if size_bytes > _PAGE_BYTES:
            self.objects = max(self.objects * _PAGE_BYTES // size_bytes, 1)
        elif size_bytes < _PAGE_BYTES // 4:
            self.objects = min(self.objects * 2, self._most)

    def too_long(self) -> bool:
        """A page of as many objects was too long to be read; whether fewer can be asked for.

        >>> page = PageSize(500)
        >>> page.too_long(), page.objects
        (True, 62)
        """
        if self.objects == 1:
            return False
        self.objects = max(self.objects // 8, 1)
        return True
