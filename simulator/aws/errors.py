"""The errors that the embedded account answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class AwsError(Exception):
    """An error that the embedded account answers with.

    Attributes:
        fields: What the answer holds besides code and message, such as `CancellationReasons`.
    """

    def __init__(self, code: str, message: str, status: int = 400, *, fields: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.status = status
        self.fields = dict(fields or {})


class UnansweredError(Exception):
    """A function makes a call that the embedded account does not implement: add an answer first."""
