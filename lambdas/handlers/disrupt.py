"""Woken once a minute, and where budget windows open or close."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from lambdas.bootstrap import application
from lambdas.decisions import Outcome
from lambdas.messages import is_window
from lambdas.observability import told


@told
def handler(event: dict[str, Any], context: LambdaContext, outcome: Outcome) -> None:
    """Decide which nodes should go."""
    application().disruption.run(outcome, is_window=is_window(event))
