"""Reports which fields of the launch template an edited EC2NodeClass changes, and EC2's answer about them."""

from __future__ import annotations

from typing import Final

from adapters.ports import Clock, JsonObject, Kubernetes
from adapters.run_report import RunReport
from adapters.runtime.observability import logger
from core import labels
from core.api.objects import name_of
from core.api.status import annotations_of
from core.launch.validation.launch_validation import LaunchValidation, read_validation
from core.launch.validation.template_fields import changed_fields
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from lambdas.controllers.kube_events import about_node_class, normal, warning, write

_AGREED: Final = "EC2 would launch from it (DryRun)"


class ValidationEvents:
    """Writes an event and a decision if EC2 gave a new answer."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._clock = clock

    def report(self, manifest: JsonObject, written: str, report: RunReport) -> None:
        """Report the answer `written` if it differs from the one in the class's annotation; a repeated denial is not news."""
        before = read_validation(annotations_of(manifest).get(labels.LAUNCH_VALIDATION, ""))
        now = read_validation(written)
        if now is None or not now.fields or (before is not None and _said(before) == _said(now)):
            return
        message, subject = _message(before, now), f"EC2NodeClass {name_of(manifest)}"
        kind, reason = (normal, RunReason.LAUNCH_VALIDATED) if now.agrees else (warning, RunReason.LAUNCH_NOT_VALIDATED)
        if now.agrees:
            logger.info(message, extra={"subject": subject})
        else:
            report.decide(DecisionKind.SKIP, subject, reason, message)
        about = about_node_class(manifest)
        write(self._kubernetes, [kind(about, reason, message, self._clock.now(), identity=message)])


def _said(answer: LaunchValidation) -> tuple[dict[str, str], str, str]:
    return answer.fields, answer.call, answer.code


def _message(before: LaunchValidation | None, now: LaunchValidation) -> str:
    fields = changed_fields(before.fields, now.fields) if before is not None else ()
    changed = f"launch template changed in {', '.join(fields)}: " if fields else ""
    return f"{changed}{now.explanation() or _AGREED}"
