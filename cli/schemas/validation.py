"""The answer of `validate`."""

from __future__ import annotations

from typing import Literal

import msgspec

from cli.schemas.answer import JsonAnswer


class ProblemAnswer(msgspec.Struct, kw_only=True):
    """One finding; `document` counts from 0, unlike in messages; line and column from 1."""

    severity: Literal["error", "warning"]
    code: str
    file: str
    document: int
    line: int | None
    column: int | None
    object: str
    field: str
    message: str
    suggestion: str | None


class ValidationAnswer(JsonAnswer):
    """`fleetwright validate -o json`."""

    kind: Literal["Validation"]
    errors: int
    warnings: int
    problems: list[ProblemAnswer]
