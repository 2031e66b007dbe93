"""Reads instance types and prices while the stack is deployed: without a market nothing can be launched.

The schedule alone would read them up to five minutes after the deployment, and a failure would not show in the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import triggers
from constructs import Construct

from infra.constructs.function import ProvisionerFunction

READER: Final = "refresh_catalogue"


class FirstMarket(Construct):
    """Invokes the function once its role is complete, at each deployment that changes it; a failure fails the deployment."""

    def __init__(self, scope: Construct, construct_id: str, *, functions: Sequence[ProvisionerFunction]) -> None:
        super().__init__(scope, construct_id)
        reader = next(function for function in functions if function.spec.name == READER)
        triggers.Trigger(
            self,
            "Trigger",
            handler=reader.function,
            timeout=cdk.Duration.seconds(int(reader.spec.timeout.total_seconds())),
            invocation_type=triggers.InvocationType.REQUEST_RESPONSE,
            execute_after=[reader.role],
        )
