"""Sessions of AWS: credentials, a region, and clients."""

from __future__ import annotations

from typing import Any, Protocol

from botocore.session import get_session


class Session(Protocol):
    """What the adapters use of a `boto3.Session`."""

    @property
    def region_name(self) -> Any:
        """The region; None where none is set."""

    @property
    def events(self) -> Any:
        """The hooks of requests."""

    def client(self, service_name: str, **options: Any) -> Any:
        """Create a client."""

    def get_credentials(self) -> Any:
        """Return the credentials; None where there are none."""


class EnvironmentSession:
    """The session of a function. boto3's would import S3's transfers and resources first: 50 ms of each cold start."""

    def __init__(self) -> None:
        self._session = get_session()

    @property
    def region_name(self) -> Any:
        """The region of the environment."""
        return self._session.get_config_variable("region")

    @property
    def events(self) -> Any:
        """The hooks of requests."""
        return self._session.get_component("event_emitter")

    def client(self, service_name: str, **options: Any) -> Any:
        """Create a client."""
        return self._session.create_client(service_name, **options)

    def get_credentials(self) -> Any:
        """Return the credentials of the function's role."""
        return self._session.get_credentials()
