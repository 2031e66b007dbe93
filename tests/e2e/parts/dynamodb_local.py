"""DynamoDB Local: Amazon's own, on 127.0.0.1, in memory."""

from __future__ import annotations

import os
from typing import Final, Self

from tests.e2e.parts.builds import binaries
from tests.e2e.parts.processes import Part, Processes, answers, free_ports

JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Small, and compiled fast rather than well: it lives for minutes and shares two cores."""

_MAIN: Final = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"


class DynamoDBLocal:
    """One server. Tables are gone when it stops; all credentials and regions see the same ones.

    Attributes:
        endpoint: The address for `endpoint_url`.
    """

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        (self._port,) = free_ports(1)
        self._part: Part | None = None
        self.endpoint: str = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it; returns when it answers. Fetches it first if it is missing. Raises PartError."""
        folder = binaries().dynamodb_local
        command = ["java", *JVM, f"-Djava.library.path={folder}", "-cp", f"{folder}/*", _MAIN]
        self._part = self._processes.start(
            "dynamodb-local",
            [*command, "-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(self._port)],
            environment={**os.environ, "DDB_LOCAL_TELEMETRY": "0"},
            ready=answers(self._port),
        )

    def stop(self) -> None:
        """Stop it, and forget its tables."""
        if self._part is not None:
            self._processes.stop(self._part)
            self._part = None
