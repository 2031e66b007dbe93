"""Classifies answers of the Kubernetes API."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec
import urllib3.exceptions

from adapters.ports import (
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    LostReplyError,
    NotFoundError,
    PortError,
    SeveralBudgetsError,
    ThrottledError,
    TransientError,
)
from adapters.runtime.refused_calls import MISSING_PERMISSIONS
from core.manifests.wire.api_resources import Resource

GONE: Final = 410
UNAUTHORIZED: Final = 401
_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
_DETAIL_MAX: Final = 300
_DIGITS_MAX: Final = 9
_BUDGET_CAUSE: Final = "DisruptionBudget"
"""The cause in Kubernetes' answer to an eviction that a PodDisruptionBudget forbids."""

_LONGEST_WAIT: Final = timedelta(minutes=1)
"""The longest delay requested by a busy server that is respected."""

_BY_STATUS: Final[dict[int, type[PortError]]] = {
    UNAUTHORIZED: DeniedError,
    _FORBIDDEN: DeniedError,
    _NOT_FOUND: NotFoundError,
    409: ConflictError,
    GONE: TransientError,
    412: ConflictError,
}


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = None
    retry_after: int = msgspec.field(default=0, name="retryAfterSeconds")


class _Status(msgspec.Struct, frozen=True):
    """The parts of Kubernetes' Status that are read here. An admission webhook may have written all of it."""

    message: str | None = None
    details: _Details | None = None

    @property
    def names_budget(self) -> bool:
        """Whether a PodDisruptionBudget is the cause."""
        causes = (self.details.causes if self.details else None) or ()
        return any(cause.reason == _BUDGET_CAUSE for cause in causes) or "disruption budget" in (self.message or "")


def of_answer(call: str, status: int, body: bytes, *, is_eviction: bool = False, retry_after: str = "") -> PortError:
    """Return the error for an unsuccessful answer.

    429 on an eviction means a PodDisruptionBudget forbids it if the answer's cause is `DisruptionBudget`, and an overloaded
    server otherwise (Kubernetes' eviction API). `retry_after` is the header of that name, empty for none.
    """
    said = _read(body)
    detail = f"{status} {said.message or body[:_DETAIL_MAX].decode(errors='replace')}"[:_DETAIL_MAX]
    if status == UNAUTHORIZED:
        detail = f"{detail}: the cluster rejects this role's token; does the role have an access entry?"
    if is_eviction and status == _TOO_MANY and said.names_budget:
        return EvictionBlockedError(call, detail)
    if is_eviction and status >= 500 and "more than one PodDisruptionBudget" in detail:
        return SeveralBudgetsError(call, detail)
    if status == _TOO_MANY:
        return ThrottledError(call, detail, _wait(said, retry_after))
    if status >= 500:
        return TransientError(call, detail)
    error = _BY_STATUS.get(status, DeniedError)(call, detail)
    if status == _FORBIDDEN:
        MISSING_PERMISSIONS.note(str(error))
    return error


def of_listing(call: str, resource: Resource, status: int, body: bytes) -> PortError:
    """Return the error for a listing: if the collection does not exist, the cluster does not serve the kind at all."""
    if status != _NOT_FOUND:
        return of_answer(call, status, body)
    what = f"the cluster serves no {resource.plural} as {resource.api_version}"
    return DeniedError(call, f"{what}: apply this release's CustomResourceDefinitions (`fleetwright crds`)")


def of_transport(call: str, error: urllib3.exceptions.HTTPError, *, is_write: bool) -> PortError:
    """Return the error for a request without an answer; a write may or may not have been applied."""
    never_arrived = isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError)
    if is_write and not never_arrived:
        return LostReplyError(call, str(error)[:_DETAIL_MAX])
    return TransientError(call, str(error)[:_DETAIL_MAX])


def _wait(said: _Status, header: str) -> timedelta:
    """Return the delay that the server requests, from the header or else from the answer's details (both in seconds)."""
    stated = int(header[:_DIGITS_MAX]) if header.isdecimal() else said.details.retry_after if said.details else 0
    return timedelta(seconds=min(int(_LONGEST_WAIT.total_seconds()), max(0, stated)))


def _read(body: bytes) -> _Status:
    """Return the answer's Status; an empty one if the body is not a Status, as from a proxy."""
    try:
        return msgspec.json.decode(body, type=_Status)
    except (msgspec.MsgspecError, RecursionError):
        return _Status()
