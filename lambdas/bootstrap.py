"""The application of this sandbox: created at the first invocation, kept for all others."""

from __future__ import annotations

import os
from collections.abc import Callable

from lambdas.application.adapters import Adapters
from lambdas.application.controllers import Application
from lambdas.clock import SystemClock
from lambdas.settings import Settings


class _Sandbox:
    """State of the process: one application, and its factory."""

    factory: Callable[[], Application] | None = None
    current: Application | None = None


def use(factory: Callable[[], Application]) -> None:
    """Let `application` call `factory` from now on, discarding any earlier application; used by embedders of the functions."""
    _Sandbox.factory = factory
    _Sandbox.current = None


def application() -> Application:
    """Return the application of this sandbox, created from the environment at the first call.

    Raises:
        InvalidInputError: If a setting is missing or not understood.
    """
    if _Sandbox.current is None:
        _Sandbox.current = (_Sandbox.factory or _from_environment)()
    return _Sandbox.current


def _from_environment() -> Application:
    import boto3

    settings = Settings.from_environment(os.environ)
    return Application(Adapters(settings, boto3.Session(), SystemClock()))
