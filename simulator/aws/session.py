"""The boto3 session of the embedded account: one client for each service, shared by all sandboxes, since making one is slow."""

from __future__ import annotations

from typing import Any

import boto3


class SharedSession(boto3.Session):  # type: ignore[misc]  # boto3 has no types
    """A session that makes each client once. Clients keep nothing between calls that functions could tell."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, Any] = {}

    def client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
        """The client of a service, as it was first asked for."""
        if service_name not in self._made:
            self._made[service_name] = super().client(service_name, *args, **kwargs)
        return self._made[service_name]
