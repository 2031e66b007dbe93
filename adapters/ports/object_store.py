"""The port of the object store."""

from __future__ import annotations

from typing import Protocol


class ObjectStore(Protocol):
    """Whole objects by name, for documents that are written once and rarely read."""

    def put(self, key: str, body: bytes) -> None:
        """Write an object, replacing an existing one. Raises PortError."""
        ...

    def get(self, key: str) -> bytes:
        """Read an object. Raises NotFoundError, PortError."""
        ...
