"""The application of this sandbox: created at the first invocation, kept for all others."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from adapters.composition.adapters import Adapters, session_of_environment
from adapters.messages import is_start_check
from adapters.runtime.clock import SystemClock
from installation.settings import Settings
from lambdas.application.controllers import Application

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from adapters.run_report import RunReport
    from adapters.runtime.observability import Work


class _Sandbox:
    """State of the process: one application, and its factory."""

    factory: Callable[[], Application] | None = None
    current: Application | None = None


def use(factory: Callable[[], Application]) -> None:
    """Let `application` use `factory` from now on, discarding an earlier application; for embedders of the functions."""
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


def starts(*needs: Callable[[Application], object]) -> Callable[[Work], Work]:
    """Return a decorator: an event that checks whether the function can start creates its dependencies, but starts no work.

    A deployment sends it to a new version before traffic. Functions that read the cluster use `reads_cluster`.
    """

    def decorate(work: Work) -> Work:
        @wraps(work)
        def run(event: dict[str, Any], context: LambdaContext, report: RunReport) -> None:
            if not is_start_check(event):
                work(event, context, report)
                return
            for need in needs:
                need(application())

        return run

    return decorate


def reads_cluster(app: Application) -> object:
    """Read all inputs of a decision without deciding."""
    return app.shared.observer.observe()


def _from_environment() -> Application:
    settings = Settings.from_environment(os.environ)
    return Application(Adapters(settings, session_of_environment(), SystemClock()))
