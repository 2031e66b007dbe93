"""One AWS service: calls by operation name, pages joined, errors in our words, waits bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lambdas.adapters.aws.errors import translate
from lambdas.ports import JsonObject, TransientError

PAGES_MAX: Final = 1000
"""Pages that one listing may have; EC2's largest answers have a few dozen."""

CONFIG: Final = Config(
    connect_timeout=3,
    read_timeout=25,
    retries={"mode": "standard", "total_max_attempts": 4},
    user_agent_extra="fleetwright",
)
"""A call with all its retries ends well within the shortest function's minute."""


class Service:
    """A client of one service."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._name = str(client.meta.service_model.service_name)

    def call(self, operation: str, **arguments: Any) -> JsonObject:
        """Call `operation`, as the service names it. Raises PortError."""
        try:
            answer: JsonObject = getattr(self._client, xform_name(operation))(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise translate(f"{self._name}:{operation}", error) from error
        return answer

    def items(self, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Every item of a paged listing. Raises PortError."""
        token: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self.call(operation, **arguments, **token)
            yield from page.get(key) or ()
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        raise TransientError(f"{self._name}:{operation}", f"more than {PAGES_MAX} pages")
