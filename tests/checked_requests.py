"""Holds every request that a test sends through botocore against what AWS would refuse (`simulator.aws.session`).

moto and stubs accept unknown filters, texts that are too long and batches that are too large, so tests of such requests passed.
"""

from __future__ import annotations

from typing import Any

import botocore.client
import pytest

from simulator.aws.session import problems_of


class RefusedRequestError(AssertionError):
    """A test sends what AWS would refuse."""


def check_every_request() -> None:
    """Check all clients of this process from now on; a second call does nothing."""
    client: Any = botocore.client.BaseClient
    if getattr(client, "checks_requests", False):
        return
    send = client._make_api_call

    def checked(self: Any, operation_name: str, parameters: dict[str, Any]) -> Any:
        service = self.meta.service_model
        call, shape = f"{service.service_name}:{operation_name}", service.operation_model(operation_name).input_shape
        try:
            problems = problems_of(call, shape, parameters)
        except (AttributeError, KeyError, TypeError):
            problems = []  # not even of the right types: botocore refuses it next
        if problems:
            raise RefusedRequestError(f"{call}: {'; '.join(problems)}")
        return send(self, operation_name, parameters)

    client._make_api_call = checked
    client.unchecked_call = send
    client.checks_requests = True


def leave_requests_unchecked(patch: pytest.MonkeyPatch) -> None:
    """Let a test send what AWS refuses on purpose, as a probe of AWS's rules does, whatever ran in this process before."""
    client: Any = botocore.client.BaseClient
    if getattr(client, "checks_requests", False):
        patch.setattr(client, "_make_api_call", client.unchecked_call)
