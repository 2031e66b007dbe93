"""The JSON answers as types. `make docs` writes their JSON Schemas, and tests check the answers against these.

Fields may be added, but are never renamed or removed, so readers ignore fields that they do not know.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from cli.schemas.answer import JsonAnswer
from cli.schemas.difference import DifferenceAnswer
from cli.schemas.disruption import DisruptionPlanAnswer
from cli.schemas.explanation import ExplanationAnswer
from cli.schemas.period import ReportAnswer, ShadowReportAnswer, WhatIfAnswer
from cli.schemas.plan import PlanAnswer
from cli.schemas.removal import DrainAnswer
from cli.schemas.simulation import SimulationSummaryAnswer
from cli.schemas.status import KillSwitchChangeAnswer, ProposalsAnswer, StatusAnswer
from cli.schemas.takeover import AdoptionAnswer, ReleaseAnswer
from cli.schemas.validation import ValidationAnswer

ANSWERS: Final[Mapping[str, type[JsonAnswer]]] = {
    "plan": PlanAnswer,
    "consolidate": DisruptionPlanAnswer,
    "explain": ExplanationAnswer,
    "validate": ValidationAnswer,
    "diff": DifferenceAnswer,
    "simulate": SimulationSummaryAnswer,
    "status": StatusAnswer,
    "approve": ProposalsAnswer,
    "pause": KillSwitchChangeAnswer,
    "adopt": AdoptionAnswer,
    "release": ReleaseAnswer,
    "drain": DrainAnswer,
    "what-if": WhatIfAnswer,
    "report": ReportAnswer,
    "shadow": ShadowReportAnswer,
}
"""Command → its answer under `-o json`."""


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema of a command's answer."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"fleetwright {command} -o json",
        **_with_clean_descriptions(msgspec.json.schema(ANSWERS[command])),
    }


def _with_clean_descriptions(found: Any) -> Any:
    """The same without the indentation of docstrings, which Python keeps up to 3.12."""
    if isinstance(found, list):
        return [_with_clean_descriptions(part) for part in found]
    if not isinstance(found, dict):
        return found
    cleaned = {key: _with_clean_descriptions(part) for key, part in found.items()}
    if isinstance(text := cleaned.get("description"), str):
        cleaned["description"] = inspect.cleandoc(text)
    return cleaned
