"""A changed answer of EC2 is told, with the fields of the launch template that changed."""

from __future__ import annotations

import pytest

from adapters.run_report import RunReport
from core import labels
from core.launch.validation.launch_validation import LaunchValidation, next_validation, written_validation
from core.manifests.wire import api_resources as kinds
from lambdas.controllers.status.validation_events import ValidationEvents
from tests.builders import NOW, a_class_manifest
from tests.fakes.world import FakeClock, FakeKubernetes

DENIED = ("ec2:RunInstances", "UnauthorizedOperation", "no")
AGREED = "EC2 would launch from it (DryRun)"


def answer(image: str, denied: tuple[str, str, str] | None = None) -> LaunchValidation:
    return next_validation(None, {"ImageId": image, "KeyName": "k"}, denied, NOW)


def told(before: LaunchValidation | None, now: LaunchValidation) -> list[tuple[str, str, int]]:
    """The events: type, message, and how many decisions go with them."""
    server, report = FakeKubernetes(FakeClock(NOW)), RunReport()
    annotations = {} if before is None else {labels.LAUNCH_VALIDATION: written_validation(before)}
    manifest = a_class_manifest(metadata={"annotations": annotations, "uid": "u"})
    ValidationEvents(server, FakeClock(NOW)).report(manifest, written_validation(now), report)
    events = [server.raw(kinds.EVENTS, name, "default") for name in server.names(kinds.EVENTS)]
    assert all(event["involvedObject"]["uid"] == "u" for event in events)
    return [(event["type"], event["message"], len(report.decisions)) for event in events]


def test_an_agreement_is_no_decision() -> None:
    assert told(None, answer("1")) == [("Normal", AGREED, 0)]


def test_the_fields_that_changed_are_named() -> None:
    assert told(answer("1"), answer("2")) == [("Normal", f"launch template changed in ImageId: {AGREED}", 0)]


def test_a_denial_is_a_warning_and_a_decision() -> None:
    ((kind, message, decisions),) = told(answer("1"), answer("1", DENIED))
    assert (kind, decisions) == ("Warning", 1)
    assert message.startswith("ec2:RunInstances (DryRun): UnauthorizedOperation: no. ")


@pytest.mark.parametrize("denied", [None, DENIED])
def test_the_same_answer_is_no_news(denied: tuple[str, str, str] | None) -> None:
    before = answer("1", denied)
    assert told(before, next_validation(before, before.fields, denied, NOW)) == []


def test_another_code_is_news() -> None:
    other = ("ec2:RunInstances", "InvalidParameterValue", "no")
    assert len(told(answer("1", DENIED), answer("1", other))) == 1


def test_an_answer_about_nothing_is_not_told() -> None:
    assert told(None, LaunchValidation(fields={}, asked_at=NOW)) == []
