"""The port of one AWS service, for calls that no port names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from core.api.objects import JsonObject


class AwsCalls(Protocol):
    """Calls the operations of one AWS service by their names."""

    def call(self, operation: str, **arguments: Any) -> JsonObject:
        """Call `operation`, by the service's name for it. Raises PortError."""
        ...

    def items(self, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Yield every item of a paged listing. Raises PortError."""
        ...
