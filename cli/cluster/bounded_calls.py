"""Bounds calls to AWS: a region that does not answer fails within a minute, not within the SDK's ten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from botocore.config import Config

CONNECT_SECONDS: Final = 4
READ_SECONDS: Final = 12
ATTEMPTS: Final = 3


def bounded_calls(connections: int = 10) -> Config:
    """Return the configuration of a client; `connections`: the most open ones."""
    from botocore.config import Config

    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=connections,
    )
