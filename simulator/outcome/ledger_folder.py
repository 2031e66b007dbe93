"""The ledger that functions write to the bucket, as files in a folder of the same names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.ledger.object_keys import PREFIX
from simulator.aws.errors import AwsError
from simulator.invocation.calls import Call


class LedgerFolder:
    """Writes what arrives in the bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def see(self, call: Call, answer: dict[str, Any] | AwsError) -> None:
        """Listen to the account's calls."""
        if call.name != "s3:PutObject" or isinstance(answer, AwsError):
            return
        key = str(call.parameters["Key"])
        if key.startswith(PREFIX):
            file = self._folder / key.removeprefix(PREFIX)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(call.parameters["Body"])
