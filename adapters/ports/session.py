"""The port of AWS sessions, which have credentials, a region, and clients."""

from __future__ import annotations

from typing import Any, Protocol


class Session(Protocol):
    """The part of `boto3.Session` that the adapters use."""

    @property
    def region_name(self) -> Any:
        """The region; None if none is set."""

    @property
    def events(self) -> Any:
        """The event hooks of requests."""

    def client(self, service_name: str, **options: Any) -> Any:
        """Create a client."""

    def get_credentials(self) -> Any:
        """Return the credentials; None if there are none."""
