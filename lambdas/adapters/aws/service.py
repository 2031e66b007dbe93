"""Calls one AWS service by operation name: pages joined, errors translated, waits bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Lock
from typing import Any, Final

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from core.version import VERSION
from lambdas.adapters.aws.errors import translate
from lambdas.ports import JsonObject, TransientError

PAGES_MAX: Final = 1000
"""Most pages of one listing; EC2's largest answers have a few dozen."""

CONNECTIONS: Final = 32
"""Open connections of a client: as many as launches run at once. Idle ones cost nothing."""

ATTEMPTS: Final = 3
CONNECT_SECONDS: Final = 2
BACK_OFF_SECONDS: Final = 3
"""Longest wait of botocore before the second and the third attempt together: one and two seconds."""


def _config(read_seconds: int, attempts: int = ATTEMPTS) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=CONNECTIONS,
        user_agent_extra=f"fleetwright/{VERSION}",
    )


def longest(config: Config) -> timedelta:
    """Return how long a call with all its attempts may take before it is given up."""
    settings: Any = config
    each = settings.connect_timeout + settings.read_timeout
    return timedelta(seconds=ATTEMPTS * each + BACK_OFF_SECONDS)


QUICK: Final = _config(4)
"""For DynamoDB, SQS and other services that answer in milliseconds: given up within 21 s, less than the shortest function
timeout."""

PATIENT: Final = _config(12)
"""For EC2 and other slow services (CreateFleet takes seconds): given up within 45 s, less than a minute."""

BRIEF: Final = _config(2, attempts=2)
"""For brakes, which are read again within seconds and where no answer is informative too: given up within 9 s."""


_MAKING: Final = Lock()
"""Threads of a run share services, and a session may create clients in only one thread at a time (boto3)."""


class AwsService:
    """A client of one service."""

    def __init__(self, client: Any = None, *, make: Callable[[], Any] = lambda: None) -> None:
        """Without a client one is created at the first call: it costs tens of milliseconds of a cold start, EC2's more."""
        self._made = client
        self._make = make

    @property
    def _client(self) -> Any:
        if self._made is None:
            with _MAKING:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def call(self, operation: str, **arguments: Any) -> JsonObject:
        """Call `operation`, by the service's name for it. Raises PortError."""
        try:
            answer: JsonObject = getattr(self._client, xform_name(operation))(**arguments)
        except (ClientError, BotoCoreError) as error:
            raise translate(f"{self._name}:{operation}", error) from error
        return answer

    @property
    def _name(self) -> str:
        return str(self._client.meta.service_model.service_name)

    def items(self, operation: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Yield every item of a paged listing. Raises PortError."""
        token: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self.call(operation, **arguments, **token)
            yield from page.get(key) or ()
            if not page.get("NextToken"):
                return
            token = {"NextToken": page["NextToken"]}
        raise TransientError(f"{self._name}:{operation}", f"more than {PAGES_MAX} pages")
