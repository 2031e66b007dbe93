"""Records what AWS answers to the checks, without who and where, and answers the checks from such a file.

A recording replaces assumptions: tests read its answers back, and what it measured has the form of a scenario's `spec.aws`.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import boto3

from cli.doctor.cluster_api import ClusterApi, NotAnsweredError
from cli.doctor.network import Account, AccountAnswer
from cli.doctor.probe import lags_of, percentiles
from cli.errors import InputError
from core.api.objects import mapping, sequence
from core.version import VERSION

KIND: Final = "Recording"
API_VERSION: Final = "fleetwright.dev/v1"
OWN_ACCOUNT: Final = "123456789012"
OTHER_ACCOUNT: Final = "210987654321"
CLUSTER: Final = "recorded"
CALLS_MAX: Final = 5000
"""The most calls that a recording keeps; a run has some two hundred."""

AUDIT_LINES: Final = "logs:FilterLogEvents"

_KEPT_HEADERS: Final = ("date",)
_DATES: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00")
_TWELVE_DIGITS: Final = re.compile(r"(?<!\d)\d{12}(?!\d)")
_PUBLIC: Final = (
    r"(?<![\d.])(?!(?:0|10|127)\.|192\.168\.|192\.0\.2\.|172\.(?:1[6-9]|2\d|3[01])\.)(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"
)
"""An IPv4 address that leads to somebody; those of private networks lead nowhere."""

_SECRETS: Final = (
    (re.compile(r"\b[A-Z]{2}IA[A-Z0-9]{12,}\b"), "AKIARECORDED"),
    (re.compile(r"\bA(?:ROA|IDA|SCA)[A-Z0-9]{12,}(?::[^\s\"]+)?"), "AROARECORDED"),
    (re.compile(r"(:assumed-role/[^/\s\"]+)/[^\s\"]+"), r"\1/recorded"),
    (re.compile(r"(:user)/[^\s\"]+"), r"\1/recorded"),
    (re.compile(r"(Encoded authorization failure message:\s*)\S+"), r"\1recorded"),
    (re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+"), "someone@example.com"),
    (re.compile(rf"{_PUBLIC}/\d+"), "192.0.2.0/24"),
    (re.compile(_PUBLIC), "192.0.2.1"),
    (re.compile(r"https://[0-9A-F]{16,}[\w.-]*eks[\w.-]*"), "https://recorded.eks.example.com"),
    (re.compile(r"/id/[0-9A-F]{16,}"), "/id/RECORDED"),
)
"""What says who asked and where: keys, sessions, users, e-mail and network addresses."""

_STAGE: Final = re.compile(r'"stageTimestamp":\s*"[^"]+"')

_REMOVED: Final = ("certificateAuthority", "Variables", "KeyMaterial", "clientRequestToken")
"""Members whose content nobody needs for a check, and that may hold names or data of an organization."""

_KEPT_VARIABLES: Final = (
    *("MODE", "SHARED_BUCKET_NAME", "BUCKET_NAME", "FEATURE_GATES"),
    *("STEER_SCALE_IN", "SURGE_RESTARTS", "BIND_PODS"),
)


class RecordingAccount(Account):
    """An account that keeps every call with its answer."""

    def __init__(self, session: Any, cluster: str, stack: str) -> None:
        super().__init__(session, cluster, stack)
        self._calls: list[dict[str, Any]] = []

    def answered(self, service: str, operation: str, region: str = "", **arguments: Any) -> AccountAnswer:
        """Ask AWS, and keep the answer."""
        answer = super().answered(service, operation, region, **arguments)
        if len(self._calls) < CALLS_MAX:
            self._calls.append(_written(f"{service}:{operation}", arguments, answer))
        return answer

    def recording(self) -> dict[str, Any]:
        """Return the document of all calls, redacted."""
        seconds = defaultdict[str, list[float]](list)
        for call in self._calls:
            seconds[call["call"]].append(call["millis"] / 1000)
        call_seconds = {
            name: dict(zip(("p50", "p99"), percentiles(values), strict=True))
            for name, values in sorted(seconds.items())
        }
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "version": VERSION,
            "region": self.region,
            "aws": measured(self._calls),
            "callSeconds": call_seconds,
            "calls": self._calls,
        }
        redacted_document: dict[str, Any] = redacted(document, own_account=self._own_account(), cluster=self.cluster)
        return redacted_document

    def _own_account(self) -> str:
        arns = [
            str(mapping(call.get("answer")).get("Arn", ""))
            for call in self._calls
            if call["call"] == "sts:GetCallerIdentity"
        ]
        return next((arn.split(":")[4] for arn in arns if arn.count(":") >= 5), "")


def measured(calls: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what recorded calls say of AWS's delays, in the form of a scenario's `spec.aws`."""
    lags = [lag for call in calls if call["call"] == AUDIT_LINES for lag in lags_of(mapping(call.get("answer")))]
    if not lags:
        return {}
    p50, p99 = percentiles(lags)
    return {"auditLogLag": {"p50": f"{max(1, round(p50))}s", "p99": f"{max(1, round(p99))}s"}}


def _written(call: str, arguments: Mapping[str, Any], answer: AccountAnswer) -> dict[str, Any]:
    body = {name: value for name, value in answer.body.items() if name not in ("ResponseMetadata", "Error")}
    headers = mapping(mapping(answer.body.get("ResponseMetadata")).get("HTTPHeaders"))
    kept = {name: headers[name] for name in _KEPT_HEADERS if name in headers}
    took = (answer.answered_at - answer.asked_at).total_seconds()
    written: dict[str, Any] = {
        "call": call,
        "parameters": _plain(arguments),
        "at": answer.asked_at.isoformat(),
        "millis": round(took * 1000),
        "headers": kept,
    }
    if answer.code:
        return {**written, "error": {"code": answer.code, "message": answer.message}}
    return {**written, "answer": _plain(_without_bodies(call, body))}


def _without_bodies(call: str, body: dict[str, Any]) -> dict[str, Any]:
    """Drop what users wrote: of an audit line only the time is kept."""
    if call != AUDIT_LINES:
        return body
    events = [
        {**event, "message": f"{{{''.join(_STAGE.findall(str(event.get('message')))[:1])}}}"}
        for event in body.get("events", ())
    ]
    return {**body, "events": events}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; moments are texts."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def redacted(value: Any, *, own_account: str = "", cluster: str = "") -> Any:
    """Return a document without account numbers, keys, users, addresses and the cluster's name."""
    if isinstance(value, dict):
        return {
            redacted(name, own_account=own_account, cluster=cluster): _removed(name, inner)
            if name in _REMOVED
            else redacted(inner, own_account=own_account, cluster=cluster)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [redacted(inner, own_account=own_account, cluster=cluster) for inner in value]
    if not isinstance(value, str):
        return value
    text = _TWELVE_DIGITS.sub(
        lambda match: OWN_ACCOUNT if match.group() in (own_account, OWN_ACCOUNT) else OTHER_ACCOUNT, value
    )
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return re.sub(rf"(?<![\w]){re.escape(cluster)}(?![\w])", CLUSTER, text) if cluster else text


def _removed(name: str, value: Any) -> Any:
    """Return the rest of a removed member: the functions' settings that checks read."""
    if name == "Variables":
        return {key: redacted(mapping(value)[key]) for key in _KEPT_VARIABLES if key in mapping(value)}
    return {} if isinstance(value, dict) else ""


class RecordedAccount(Account):
    """An account that answers from a recording: each operation's answers in their order, the last one again and again.

    The API server is not recorded, so its checks are `unknown`.
    """

    def __init__(self, document: Mapping[str, Any], stack: str) -> None:
        session = boto3.Session(region_name=str(document.get("region", "")))
        super().__init__(session, CLUSTER, stack)
        self._answers = defaultdict[str, list[dict[str, Any]]](list)
        for call in sequence(document.get("calls")):
            self._answers[str(call["call"])].append(call)

    def answered(self, service: str, operation: str, region: str = "", **arguments: Any) -> AccountAnswer:  # noqa: ARG002
        """Return the next recorded answer. Raises NotAnsweredError."""
        kept = self._answers.get(f"{service}:{operation}")
        if not kept:
            raise NotAnsweredError(f"{service}:{operation} is not recorded")
        call = kept.pop(0) if len(kept) > 1 else kept[0]
        at, error = datetime.fromisoformat(str(call["at"])), mapping(call.get("error"))
        body = {
            **mapping(_moments(call.get("answer"))),
            "ResponseMetadata": {"HTTPHeaders": mapping(call.get("headers"))},
        }
        return AccountAnswer(body, at, at, str(error.get("code", "")), str(error.get("message", "")))

    @cached_property
    def api(self) -> ClusterApi:
        """No API server: it is not recorded, and nobody may ask it."""
        return _Unasked(self.session, self.cluster, self.described)

    def recorded_at(self) -> datetime:
        """Return when the first call was made."""
        moments = [str(call["at"]) for calls in self._answers.values() for call in calls]
        return datetime.fromisoformat(min(moments)) if moments else datetime.now(UTC)


class _Unasked(ClusterApi):
    def _read(self, call: str, path: str) -> dict[str, Any] | None:  # noqa: ARG002 - every path alike
        raise NotAnsweredError(f"{call} is not recorded")


def _moments(value: Any) -> Any:
    """Return an answer with its moments, which JSON has as texts."""
    if isinstance(value, dict):
        return {name: _moments(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_moments(inner) for inner in value]
    return datetime.fromisoformat(value) if isinstance(value, str) and _DATES.fullmatch(value) else value


def read_recording(path: Path) -> dict[str, Any]:
    """Return the document of a recording.

    Raises:
        InputError: If the file is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", source=str(path)) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(
            f"this is no {KIND}", source=str(path), hint="`fleetwright doctor --probe --record FILE` writes one"
        )
    return document


def lines_of(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the text of a recording: a call on each line, so that two recordings can be compared."""
    head = {name: value for name, value in document.items() if name != "calls"}
    calls: Sequence[Any] = document["calls"]
    yield json.dumps(head, indent=1)[:-2] + ',\n "calls": [\n'
    yield ",\n".join(f"  {json.dumps(call, sort_keys=True)}" for call in calls)
    yield "\n ]\n}\n"
