"""Computes whether and when the SDK retries: botocore's own standard mode, called without its events and requests."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import msgspec
from botocore.exceptions import ClientError
from botocore.retries.standard import register_retry_handler


class Try(msgspec.Struct):
    """A call in progress: the number of its attempt, and botocore's state from earlier ones."""

    operation: Any
    attempt: int = 1
    context: dict[str, Any] = {}


class Retries:
    """The retries of one client, with the quota that all its calls share."""

    def __init__(self, service_model: Any, attempts: int) -> None:
        registered: dict[str, Callable[..., Any]] = {}

        def register(event: str, handler: Callable[..., Any], **_: Any) -> None:
            registered[event.partition(".")[0]] = handler

        meta = SimpleNamespace(service_model=service_model, events=SimpleNamespace(register=register))
        register_retry_handler(SimpleNamespace(meta=meta), attempts)
        self._needs_retry = registered["needs-retry"]
        self._release = registered["after-call"]

    def succeeded(self, tried: Try) -> None:
        """Record that the call was answered."""
        self._release(context=tried.context, http_response=_ANSWERED)

    def wait_after(self, tried: Try, error: Exception) -> float | None:
        """Return the seconds until the next attempt, None for no retry. botocore draws them from Python's global generator."""
        response = None
        if isinstance(error, ClientError):
            response = (_response(error.response["ResponseMetadata"]["HTTPStatusCode"]), error.response)
        wait: float | None = self._needs_retry(
            response=response,
            attempts=tried.attempt,
            operation=tried.operation,
            caught_exception=None if response else error,
            request_dict={"context": tried.context},
        )
        return wait


def _response(status: int) -> Any:
    return SimpleNamespace(status_code=status, headers={})


_ANSWERED: Final = _response(200)
