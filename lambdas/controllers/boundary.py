"""Isolates independent pieces of work: an error is reported under the piece's name, and the next piece runs."""

from __future__ import annotations

from collections.abc import Callable

from adapters.observability import logger
from adapters.ports import PortError, reason_of
from adapters.run_report import RunReport
from core.reasons.code import DecisionKind, ReasonCode
from core.reasons.runs import FailureReason


class Boundary:
    """Runs pieces of work, and remembers which of them failed."""

    def __init__(self, report: RunReport) -> None:
        self._report = report
        self.failed: list[str] = []

    def attempt(self, subject: str, work: Callable[[], object]) -> bool:
        """Run the piece of work; return whether it succeeded.

        An error that no port raises is a defect in our code, so its traceback is logged.
        """
        try:
            work()
        except PortError as error:
            self._report.count("portErrors")
            self._note(subject, error)
        except Exception as error:  # noqa: BLE001 - an error of one piece must not stop the others
            logger.exception("unexpected error", extra={"subject": subject})
            self._report.count("unexpectedErrors")
            self._note(subject, error)
        else:
            return True
        return False

    def leave(self, subject: str, reason: ReasonCode, message: str) -> None:
        """Report that a piece of work was not started; it counts as failed."""
        self.failed.append(subject)
        self._report.decide(DecisionKind.SKIP, subject, reason, message)

    def _note(self, subject: str, error: Exception) -> None:
        reason = reason_of(error)
        name = f"{type(error).__name__}: " if reason is FailureReason.UNEXPECTED else ""
        self.leave(subject, reason, f"{name}{error}")
