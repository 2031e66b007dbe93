"""Stores denied launches in the table. A failure to store one costs only a wasted launch, so it is reported and not raised."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from adapters.ports import ConflictError, PortError, reason_of
from adapters.run_report import RunReport
from adapters.store import LaunchDenials
from core.launch.denials.denial import DeniedLaunch, LaunchDenial
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind

TRIES: Final = 5
"""The most attempts to write a denial against concurrent writes: denials of one cause come together."""


class DenialMemory:
    """Adds and drops denials that other runs may be changing, too."""

    def __init__(self, denials: LaunchDenials) -> None:
        self._denials = denials

    def add(self, found: DeniedLaunch, now: datetime, report: RunReport) -> None:
        """Count one more failed launch."""
        for attempt in range(1, TRIES + 1):
            try:
                self._add_once(found, now)
            except ConflictError as error:
                if attempt == TRIES:
                    could_not(f"denial {found.code}", error, report)
            except PortError as error:
                could_not(f"denial {found.code}", error, report)
                return
            else:
                return

    def drop(self, denial: LaunchDenial, reason: ClaimReason, report: RunReport) -> None:
        """Delete a denial that was disproved."""
        try:
            self._denials.remove(denial)
        except ConflictError:
            return  # it was denied again meanwhile, or another claim is retrying
        except PortError as error:
            could_not(f"denial {denial.code}", error, report)
            return
        if denial.is_engaged:
            report.decide(DecisionKind.RELEASE, f"EC2NodeClass {denial.node_class}", reason, f"no longer {denial.code}")

    def _add_once(self, found: DeniedLaunch, now: datetime) -> None:
        same = (d for d in self._denials.all() if (d.node_class, d.code) == (found.node_class, found.code))
        before = next(same, None)
        first = LaunchDenial(node_class=found.node_class, code=found.code)
        self._denials.change(before, (before or first).after(found, now))


def could_not(what: str, error: PortError, report: RunReport) -> None:
    """Report what could not be stored."""
    report.count("portErrors")
    report.decide(DecisionKind.SKIP, what, reason_of(error), str(error))
