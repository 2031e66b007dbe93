"""One piece of work that fails is reported, and the next one runs."""

from __future__ import annotations

import pytest

from adapters.ports import PortError, TransientError
from adapters.run_report import RunReport
from core.reasons.runs import FailureReason, RunReason
from lambdas.controllers.boundary import Boundary


class Attempts:
    """Pieces of work, and what is known of them afterwards."""

    def __init__(self) -> None:
        self.report = RunReport()
        self.boundary = Boundary(self.report)

    def fail(self, error: Exception) -> bool:
        def work() -> None:
            raise error

        return self.boundary.attempt("c", work)

    def reported(self) -> list[tuple[str, str, str, str]]:
        return [
            (decision.kind, decision.subject, decision.reason, decision.message) for decision in self.report.decisions
        ]


def test_what_succeeds_is_not_reported() -> None:
    attempts, done = Attempts(), list[str]()
    assert attempts.boundary.attempt("c", lambda: done.append("c"))
    assert (done, attempts.boundary.failed, attempts.reported(), attempts.report.counts) == (["c"], [], [], {})


def test_an_error_of_a_port_is_reported_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts()
    error: PortError = TransientError("kube:list nodes", "503")
    assert not attempts.fail(error)
    assert attempts.boundary.failed == ["c"]
    assert attempts.reported() == [("skip", "c", FailureReason.TRANSIENT, str(error))]
    assert (attempts.report.counts, caplog.records) == ({"portErrors": 1}, [])


def test_a_defect_of_ours_is_reported_with_its_type_and_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    attempts = Attempts()
    assert not attempts.fail(ValueError("a defect"))
    assert attempts.reported() == [("skip", "c", FailureReason.UNEXPECTED, "ValueError: a defect")]
    assert attempts.report.counts == {"unexpectedErrors": 1}
    (logged,) = caplog.records
    assert (logged.message, logged.__dict__["subject"], bool(logged.exc_info)) == ("unexpected error", "c", True)


def test_what_was_not_started_counts_as_failed() -> None:
    attempts = Attempts()
    attempts.boundary.leave("c", RunReason.TIME_SHORT, "later")
    assert attempts.boundary.failed == ["c"]
    assert attempts.reported() == [("skip", "c", RunReason.TIME_SHORT, "later")]
