"""The AWS session of a function: its clients, AWS's errors as ours, queues and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.session import get_session

from adapters.messages import WINDOW
from adapters.observability import MISSING_PERMISSIONS
from adapters.ports import (
    ConflictError,
    DeniedError,
    JsonObject,
    LostReplyError,
    NotFoundError,
    PortError,
    ThrottledError,
    TooLargeError,
    TransientError,
)

# Classifies AWS error codes: the one table that translates what boto3 raises into what a port may raise.


_MEANINGS: Final[dict[type[PortError], frozenset[str]]] = {
    NotFoundError: frozenset(
        {
            "ExecutionDoesNotExist",
            "InvalidCapacityReservationId.NotFound",
            "InvalidInstanceID.NotFound",
            "InvalidInstanceID.Malformed",
            "InvalidLaunchTemplateId.NotFound",
            "InvalidLaunchTemplateName.NotFoundException",
            "InvalidPlacementGroup.Unknown",
            "InvalidPlacementGroupId.Malformed",
            "NoSuchBucket",
            "NoSuchEntity",
            "NoSuchKey",
            "NotFound",
            "ParameterNotFound",
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
            "ResourceNotFoundException",
            "404",
        }
    ),
    ConflictError: frozenset(
        {
            "ConditionalCheckFailedException",
            "ConflictException",
            "EntityAlreadyExists",
            "ExecutionAlreadyExists",
            "IdempotentParameterMismatch",
            "InvalidLaunchTemplateName.AlreadyExistsException",
            "PreconditionFailed",
            "ResourceInUseException",
            "412",
        }
    ),
    TransientError: frozenset(
        {
            "BandwidthLimitExceeded",
            "InternalError",
            "InternalFailure",
            "InternalServerError",
            "LimitExceededException",
            "PriorRequestNotComplete",
            "ProvisionedThroughputExceededException",
            "RequestTimeout",
            "RequestTimeoutException",
            "ServiceUnavailable",
            "TransactionCanceledException",
            "TransactionConflictException",
            "TransactionInProgressException",
            "Unavailable",
        }
    ),
    ThrottledError: frozenset(
        {
            "EC2ThrottledException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "RequestThrottledException",
            "SlowDown",
            "Throttling",
            "ThrottledException",
            "ThrottlingException",
            "TooManyRequestsException",
        }
    ),
}
"""Codes of EC2, IAM, SSM, S3, SQS, DynamoDB, Scheduler and Pricing. Any other error that is not the server's fault is a denial:
permission, quota or an impossible request; a retry would get the same answer. A cancelled transaction whose condition failed is
a conflict; `dynamodb.table` separates it from one that conflicted with another, or was throttled, and did nothing."""

_INVALID: Final = "ValidationException"
_TOO_LARGE: Final = "Item size"
"""DynamoDB's code for a request that it does not accept, and how its message begins if the item exceeds 400 KB."""

_BY_CODE: Final = {code: error for error, codes in _MEANINGS.items() for code in codes}


def translate(call: str, error: ClientError | BotoCoreError) -> PortError:
    """Return the port's error for one of boto3's; raise it from that. `call` is `service:Operation`."""
    if isinstance(error, ClientError):
        code, message = code_of(error), _message(error)
        meaning = meaning_of(code, status_of(error))
        if meaning is DeniedError:
            is_too_large = code == _INVALID and message.startswith(_TOO_LARGE)
            denied = (TooLargeError if is_too_large else DeniedError)(
                call, f"{code}: {message}", code=code, message=message
            )
            MISSING_PERMISSIONS.note(str(denied))
            return denied
        if issubclass(meaning, TransientError):
            return meaning(call, f"{code}: {message}", answers=1 + retries_of(error.response))
        return meaning(call, f"{code}: {message}")
    if isinstance(error, ReadTimeoutError | ConnectionClosedError | ResponseStreamingError):
        return LostReplyError(call, str(error))
    if isinstance(error, NoCredentialsError | ParamValidationError):
        return DeniedError(call, str(error), code=type(error).__name__)
    if isinstance(error, HTTPClientError):
        return TransientError(call, str(error))
    return TransientError(call, f"{type(error).__name__}: {error}")


def meaning_of(code: str, status: int = 400) -> type[PortError]:
    """Return what an error code means for the caller."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    return TransientError if status >= 500 else DeniedError


def code_of(error: ClientError) -> str:
    """Return the service's error code, such as `RequestLimitExceeded`."""
    return str(error.response.get("Error", {}).get("Code", ""))


def retries_of(answer: Mapping[str, Any]) -> int:
    """Return how many attempts of the SDK came before the answer."""
    return int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))


def status_of(error: ClientError) -> int:
    """Return the HTTP status."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))


def _message(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Message", ""))


# Maintains budget windows as EventBridge Scheduler schedules.


PAGES_LIMIT: Final = 100

RETRY_POLICY: Final = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 2}
"""Two retries within a minute; then the minutely schedule has compensated for a failed window event."""


class SchedulerWindows:
    """One schedule group, whose schedules wake one function (`adapters.ports.WindowSchedules`)."""

    def __init__(self, client: Any, *, group: str, role_arn: str, target_arn: str) -> None:
        self._client = client
        self._group = group
        self._target = {
            "Arn": target_arn,
            "RoleArn": role_arn,
            "Input": f'{{"source": "{WINDOW}"}}',
            "RetryPolicy": RETRY_POLICY,
        }

    def replace(self, wanted: Mapping[str, str]) -> None:
        """Create missing schedules, update different ones, and delete the others.

        Raises:
            PortError: The first error that concerns one schedule alone, after all others are written; any other error at once.
        """
        present = self._present()
        failed: list[PortError] = []
        for name in sorted(wanted.keys() | present):
            try:
                self._settle(name, wanted.get(name), is_present=name in present)
            except (ConflictError, DeniedError, NotFoundError) as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _settle(self, name: str, expression: str | None, *, is_present: bool) -> None:
        """Bring one schedule to this expression; None: delete it."""
        if expression is None:
            self._delete(name)
        elif not is_present:
            self._create(name, expression)
        elif self._written(name) != (expression, self._target["Arn"], self._target["RoleArn"]):
            self._write("UpdateSchedule", self._client.update_schedule, name, expression)

    def _create(self, name: str, expression: str) -> None:
        try:
            self._write("CreateSchedule", self._client.create_schedule, name, expression)
        except ConflictError:
            self._write("UpdateSchedule", self._client.update_schedule, name, expression)

    def _present(self) -> set[str]:
        names: set[str] = set()
        token: str | None = None
        for _ in range(PAGES_LIMIT):
            more = {"NextToken": token} if token else {}
            page = _call("ListSchedules", partial(self._client.list_schedules, GroupName=self._group, **more))
            names |= {schedule["Name"] for schedule in page["Schedules"]}
            token = page.get("NextToken")
            if not token:
                break
        return names

    def _written(self, name: str) -> tuple[str, str, str]:
        """Return a schedule's expression, function and role; an update of the stack may change the latter two."""
        schedule = _call("GetSchedule", lambda: self._client.get_schedule(GroupName=self._group, Name=name))
        return str(schedule["ScheduleExpression"]), str(schedule["Target"]["Arn"]), str(schedule["Target"]["RoleArn"])

    def _write(self, operation: str, write: Callable[..., Any], name: str, expression: str) -> None:
        _call(
            operation,
            lambda: write(
                GroupName=self._group,
                Name=name,
                ScheduleExpression=expression,
                FlexibleTimeWindow={"Mode": "OFF"},
                Target=self._target,
            ),
        )

    def _delete(self, name: str) -> None:
        try:
            _call("DeleteSchedule", lambda: self._client.delete_schedule(GroupName=self._group, Name=name))
        except NotFoundError:
            return


def _call(operation: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (ClientError, BotoCoreError) as error:
        raise translate(f"scheduler:{operation}", error) from error


class EnvironmentSession:
    """The session of a function (`adapters.ports.Session`).

    boto3's would import S3 transfers and resources, which take 50 ms of each cold start.
    """

    def __init__(self) -> None:
        self._session = get_session()

    @property
    def region_name(self) -> Any:
        """The region of the environment."""
        return self._session.get_config_variable("region")

    @property
    def events(self) -> Any:
        """The event hooks of requests."""
        return self._session.get_component("event_emitter")

    def client(self, service_name: str, **options: Any) -> Any:
        """Create a client."""
        return self._session.create_client(service_name, **options)

    def get_credentials(self) -> Any:
        """Return the credentials of the function's role."""
        return self._session.get_credentials()


# FunctionQueues in SQS.


_BATCH: Final = 10
_LONGEST_DELAY: Final = timedelta(minutes=15)


class SqsQueue:
    """One queue (`adapters.ports.Queue`)."""

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        """Send all messages, ten per call. Raises TransientError if SQS did not accept one of them."""
        bodies = [msgspec.json.encode(message).decode() for message in messages]
        seconds = int(min(_LONGEST_DELAY, max(timedelta(0), delay)).total_seconds() + 0.999)
        for start in range(0, len(bodies), _BATCH):
            self._send(bodies[start : start + _BATCH], seconds)

    def _send(self, bodies: list[str], seconds: int) -> None:
        entries = [{"Id": str(i), "MessageBody": body, "DelaySeconds": seconds} for i, body in enumerate(bodies)]
        try:
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        except (ClientError, BotoCoreError) as error:
            raise translate("sqs:SendMessageBatch", error) from error
        if answer.get("Failed"):
            raise TransientError("sqs:SendMessageBatch", f"{len(answer['Failed'])} of {len(entries)} not accepted")
