"""Calls one AWS service by operation name: joins pages, translates errors, bounds waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Lock
from typing import Any, Final

from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import translate
from adapters.ports import JsonObject, TransientError
from core.version import VERSION

PAGES_MAX: Final = 1000
"""The most pages of one listing; EC2's largest answers have a few dozen."""

CONNECTIONS: Final = 32
"""The most open connections of a client: one for each concurrent launch. Idle ones cost nothing."""

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
    """Return how long a call may take with all its attempts."""
    settings: Any = config
    each = settings.connect_timeout + settings.read_timeout
    return timedelta(seconds=ATTEMPTS * each + BACK_OFF_SECONDS)


QUICK: Final = _config(4)
"""For DynamoDB, SQS and other services that answer in milliseconds: a call fails within 21 s, less than the shortest function
timeout."""

PATIENT: Final = _config(12)
"""For EC2 and other slow services (CreateFleet takes seconds): a call fails within 45 s."""

BRIEF: Final = _config(2, attempts=2)
"""For brakes, which are read again within seconds, and for which a missing answer is informative: a call fails within 9 s."""


_MAKING: Final = Lock()
"""Serializes the creation of clients: threads share services, and a boto3 session must not create clients concurrently."""


class AwsService:
    """A client of one service."""

    def __init__(self, client: Any = None, *, make: Callable[[], Any] = lambda: None) -> None:
        """Without a client, one is created at the first call; creation takes tens of milliseconds, longer for EC2."""
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
