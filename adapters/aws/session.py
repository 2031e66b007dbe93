"""The AWS session of a function."""

from __future__ import annotations

from typing import Any

from botocore.session import get_session


class EnvironmentSession:
    """The session of a function (`adapters.ports.Session`).

    boto3's would import S3 transfers and resources, which take 50 ms of each cold start.
    """

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
