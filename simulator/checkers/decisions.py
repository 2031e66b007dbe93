"""Judges decisions beside the functions' ledger: a node goes for a reason that can be asked for, or it stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simulator.checkers.calls import Report

_DECISIONS: Final = "/decisions/"
"""A part of the names of objects in the bucket that hold decisions; each name ends with the decision's id."""

_WITHOUT: Final = ("Unhealthy",)
"""Reasons for which nodes go even if the ledger cannot be written: their pods may have no working node."""


class DecisionJudge:
    """Compares the commands in the table with the decisions in the bucket. Violations go to `report(law, message)`."""

    name = "commandsWithoutDecision"

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stored: set[str] = set()
        self._known: set[str] = set()

    def object_written(self, key: str) -> None:
        """Take the name of an object that is in the bucket from now on."""
        if _DECISIONS in key:
            self._stored.add(key.rpartition("-")[2])

    def command_written(self, command: Mapping[str, Any]) -> None:
        """Judge a command that a function writes for the first time."""
        name, decision, reason = command["id"], command.get("decision") or "", command["command"]["reason"]
        if name in self._known:
            return
        self._known.add(name)
        if decision not in self._stored and reason not in _WITHOUT:
            what = f"decision {decision!r} is not in the ledger" if decision else "it names no decision"
            self._report(self.name, f"command {name} ({reason}) has begun, and {what}")
