"""The application of this sandbox: created at the first invocation, kept for all others."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from adapters.composition.functions import Adapters, session_of_environment
from adapters.messages import is_start_check
from adapters.runtime import SystemClock
from installation.settings import Settings
from lambdas.application.controllers import Application

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from adapters.observability import Work
    from adapters.run_report import RunReport


WENT_BACK: Final = timedelta(seconds=1)
"""A clock that is further behind its last reading was set back. Smaller corrections are usual, and no cache is that short."""


class _Sandbox:
    """State of the process: one application, when it was last used by its clock, and its factory."""

    factory: Callable[[], Application] | None = None
    current: Application | None = None
    used_at: datetime | None = None


def use(factory: Callable[[], Application]) -> None:
    """Let `application` use `factory` from now on, discarding an earlier application; for embedders of the functions."""
    _Sandbox.factory = factory
    _Sandbox.current = _Sandbox.used_at = None


def application() -> Application:
    """Return the application of this sandbox, created from the environment at the first call.

    After its clock was set back, it is created again: whatever it has read would count as fresh until the clock has caught up,
    such as which brakes are engaged (docs/engineering/handbook/state.md).

    Raises:
        InvalidInputError: If a setting is missing or not understood.
    """
    app, before = _Sandbox.current, _Sandbox.used_at
    if app is None or (before is not None and app.adapters.clock.now() < before - WENT_BACK):
        app = _Sandbox.current = (_Sandbox.factory or _from_environment)()
    _Sandbox.used_at = app.adapters.clock.now()
    return app


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
    # botocore draws its pauses between attempts from `random`, whose generator is seeded when it is imported: sandboxes that
    # start from one snapshot share it, and would repeat a throttled call all at the same moments.
    random.seed()
    settings = Settings.from_environment(os.environ)
    return Application(Adapters(settings, session_of_environment(), SystemClock()))
