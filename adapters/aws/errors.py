"""Classifies AWS error codes: the one table that translates what boto3 raises into what a port may raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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

from adapters.ports import (
    ConflictError,
    DeniedError,
    LostReplyError,
    NotFoundError,
    PortError,
    ThrottledError,
    TooLargeError,
    TransientError,
)
from adapters.runtime.refused_calls import MISSING_PERMISSIONS

_MEANINGS: Final[dict[type[PortError], frozenset[str]]] = {
    NotFoundError: frozenset(
        {
            "InvalidCapacityReservationId.NotFound",
            "InvalidInstanceID.NotFound",
            "InvalidInstanceID.Malformed",
            "InvalidLaunchTemplateId.NotFound",
            "InvalidLaunchTemplateName.NotFoundException",
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
                call, f"{code}: {message}", code=code, said=message
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
