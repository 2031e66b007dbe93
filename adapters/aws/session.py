"""Sessions of AWS: credentials, a region, and clients."""

from __future__ import annotations

from typing import Any, Protocol

from botocore.session import get_session


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


class EnvironmentSession:
    """The session of a function. boto3's would import S3 transfers and resources, which take 50 ms of each cold start."""

    def __init__(self) -> None:
        self._session = get_session()

    @property
    def region_name(self) -> Any:
        """The region of the environment."""
        return self._session.get_config_variable("region")

    @property
    def events(self) -> Any:
        """The event hooks of requests."""
        return self._session.get_component("event_emitter")

    def client(self, service_name: str, **options: Any) -> Any:
        """Create a client."""
        return self._session.create_client(service_name, **options)

    def get_credentials(self) -> Any:
        """Return the credentials of the function's role."""
        return self._session.get_credentials()
