"""The boto3 session of the embedded account: one client for each service, shared by all sandboxes, since making one is slow."""

from __future__ import annotations

from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore.loaders import Loader


class SharedSession(boto3.Session):  # type: ignore[misc]  # boto3 has no types
    """A session that makes each client once. Clients keep nothing between calls that functions could tell."""

    def __init__(self) -> None:
        core = botocore.session.get_session()
        core.register_component("data_loader", _descriptions())
        super().__init__(botocore_session=core)
        self._made: dict[str, Any] = {}

    def client(self, service_name: str, *args: Any, **kwargs: Any) -> Any:
        """The client of a service, as it was first asked for."""
        if service_name not in self._made:
            self._made[service_name] = super().client(service_name, *args, **kwargs)
        return self._made[service_name]


@cache
def _descriptions() -> Loader:
    """The services' descriptions: megabytes of JSON, so they are read once in a process however many worlds it plays."""
    return Loader()
