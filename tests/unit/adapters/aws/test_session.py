"""What AWS errors mean to the caller."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from adapters.aws.ec2.fleet import describe, failure, refused_offerings
from adapters.aws.session import SchedulerWindows, translate
from adapters.ports import (
    ConflictError,
    DeniedError,
    InsufficientCapacityError,
    LaunchDeniedError,
    LostReplyError,
    NotFoundError,
    PortError,
    RefusedOffering,
    ThrottledError,
    TooLargeError,
    TransientError,
    UnfulfilledError,
)
from core.model.catalogue import OfferingKey

TRIED = (
    OfferingKey("m5.large", "us-east-1a", "spot"),
    OfferingKey("m5.large", "us-east-1b", "spot"),
    OfferingKey("m6i.large", "us-east-1a", "spot"),
)
ZONES = {"subnet-a": "us-east-1a", "subnet-b": "us-east-1b"}


def a_fleet_error(code: str, instance_type: str | None = None, subnet: str | None = None) -> dict[str, Any]:
    override = {"InstanceType": instance_type, "SubnetId": subnet}
    overrides = {key: value for key, value in override.items() if value}
    return {"ErrorCode": code, "ErrorMessage": "…", "LaunchTemplateAndOverrides": {"Overrides": overrides}}


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [
        ("RequestLimitExceeded", 503, ThrottledError),
        ("ThrottlingException", 400, ThrottledError),
        ("SomethingNew", 500, TransientError),
        ("SomethingNew", 400, DeniedError),
        ("UnauthorizedOperation", 403, DeniedError),
        ("InvalidInstanceID.NotFound", 400, NotFoundError),
        ("ConditionalCheckFailedException", 400, ConflictError),
        ("IdempotentParameterMismatch", 400, ConflictError),
    ],
)
def test_codes_are_read_by_meaning(code: str, status: int, error: type[PortError]) -> None:
    """Retrying a denied call, or giving up on a throttled one, are opposite mistakes."""
    answer: Any = {"Error": {"Code": code, "Message": "m"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    translated = translate("ec2:X", ClientError(answer, "X"))
    assert type(translated) is error
    assert code in str(translated)


@pytest.mark.parametrize(
    ("code", "message", "error"),
    [
        ("ValidationException", "Item size has exceeded the maximum allowed size", TooLargeError),
        ("ValidationException", "Item size to update has exceeded the maximum allowed size", TooLargeError),
        ("ValidationException", "The provided key element does not match the schema", DeniedError),
        ("AccessDeniedException", "KMS key access denied error", DeniedError),
    ],
)
def test_an_item_that_is_too_large_is_distinguished_from_other_denials(
    code: str, message: str, error: type[PortError]
) -> None:
    answer: Any = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    assert type(translate("dynamodb:PutItem", ClientError(answer, "PutItem"))) is error


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (ReadTimeoutError(endpoint_url="u"), LostReplyError),
        (ConnectTimeoutError(endpoint_url="u"), TransientError),
        (EndpointConnectionError(endpoint_url="u"), TransientError),
        (NoCredentialsError(), DeniedError),
    ],
)
def test_a_lost_reply_is_distinguished_from_a_request_that_never_left(
    raised: BotoCoreError, error: type[PortError]
) -> None:
    """Only after a lost reply must the caller check before it repeats the call."""
    assert type(translate("ec2:X", raised)) is error


def test_only_the_offering_that_was_refused_is_remembered() -> None:
    """Other zones and types still have capacity."""
    errors = [a_fleet_error("InsufficientInstanceCapacity", "m5.large", "subnet-a")]
    refused = RefusedOffering(TRIED[0], "InsufficientInstanceCapacity", "…", "subnet-a")
    assert refused_offerings(errors, TRIED, ZONES) == (refused,)


@pytest.mark.parametrize("code", ["InsufficientFreeAddressesInSubnet", "InsufficientCidrBlocks"])
def test_a_subnet_without_addresses_or_prefixes_closes_its_whole_zone(code: str) -> None:
    """Otherwise, every other type would fail there too, one call after the other."""
    errors = [a_fleet_error(code, "m5.large", "subnet-a")]
    assert [refused.offering for refused in refused_offerings(errors, TRIED, ZONES)] == [TRIED[0], TRIED[2]]


def test_without_the_service_linked_role_there_is_no_spot_at_all() -> None:
    """The account cannot buy spot; on-demand still works."""
    errors = [a_fleet_error("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "m5.large", "subnet-a")]
    assert [refused.offering for refused in refused_offerings(errors, TRIED, ZONES)] == list(TRIED)


def test_a_denied_launch_is_not_a_lack_of_capacity() -> None:
    """Lack of capacity is remembered for all clusters; a typo in one EC2NodeClass must not be."""
    errors = [a_fleet_error("UnauthorizedOperation", "m5.large", "subnet-a")]
    refused = refused_offerings(errors, TRIED, ZONES)
    assert type(failure("c", errors, refused, TRIED)) is LaunchDeniedError


def test_a_failed_fleet_says_what_to_do_next() -> None:
    """Plan again without the refused offerings, try later, or raise an alarm."""
    ice = a_fleet_error("InsufficientInstanceCapacity", "m5.large", "subnet-a")
    throttled, denied = a_fleet_error("RequestLimitExceeded"), a_fleet_error("UnauthorizedOperation")
    refused = refused_offerings([ice, denied], TRIED, ZONES)
    planned_again = failure("c", [ice, denied], refused, TRIED)
    assert isinstance(planned_again, InsufficientCapacityError)
    assert planned_again.refused == refused
    assert type(failure("c", [throttled], (), TRIED)) is UnfulfilledError
    of_both = refused_offerings([throttled, denied], TRIED, ZONES)
    assert type(failure("c", [throttled, denied], of_both, TRIED)) is LaunchDeniedError
    silence = failure("c", [], (), TRIED)
    assert isinstance(silence, InsufficientCapacityError)
    assert [refused.offering for refused in silence.refused] == list(TRIED)


def test_reasons_are_given_in_words() -> None:
    """An operator should not have to know EC2's codes."""
    assert describe({"ErrorCode": "VcpuLimitExceeded", "ErrorMessage": "m"}).startswith("VcpuQuotaExceeded")
    assert describe({"ErrorCode": "New", "ErrorMessage": "m"}) == "LaunchFailed (New: m)"


def test_the_attempts_of_the_sdk_that_were_throttled_are_counted() -> None:
    """Each took a token of the account's bucket."""
    response: Any = {
        "Error": {"Code": "RequestLimitExceeded", "Message": "m"},
        "ResponseMetadata": {"HTTPStatusCode": 503, "RetryAttempts": 2},
    }
    error = translate("ec2:CreateFleet", ClientError(response, "CreateFleet"))
    assert isinstance(error, ThrottledError)
    assert error.answers == 3


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url="https://ec2"),
        EndpointConnectionError(endpoint_url="https://ec2"),
        ReadTimeoutError(endpoint_url="https://ec2"),
        BotoCoreError(),
    ],
)
def test_what_did_not_answer_throttled_nothing(error: BotoCoreError) -> None:
    """A fault of one cluster's own network slowed the launches of all clusters of the account and region."""
    translated = translate("ec2:CreateFleet", error)
    assert isinstance(translated, TransientError)
    assert translated.answers == 0


def test_a_fault_that_the_service_answers_counts_as_an_answer() -> None:
    response: Any = {"Error": {"Code": "InternalError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}
    error = translate("ec2:CreateFleet", ClientError(response, "CreateFleet"))
    assert isinstance(error, TransientError)
    assert error.answers == 1


# Schedules of budget windows: one that EventBridge refuses keeps no other from what it should be.


SUNDAY, MONDAY, FRIDAY = (f"cron(0 8 ? * {day} *)" for day in ("SUN", "MON", "FRI"))


class FakeScheduler:
    """One group of EventBridge Scheduler; `refused` has the names of schedules about which it answers with `code`."""

    def __init__(self, **expressions: str) -> None:
        self.schedules: dict[str, dict[str, Any]] = {}
        self.refused: frozenset[str] = frozenset()
        self.code = "ValidationException"
        for name, expression in expressions.items():
            self.create_schedule(Name=name, ScheduleExpression=expression, Target={"Arn": "disrupt", "RoleArn": "role"})

    @property
    def expressions(self) -> dict[str, str]:
        return {name: schedule["ScheduleExpression"] for name, schedule in self.schedules.items()}

    def list_schedules(self, **_: Any) -> dict[str, Any]:
        return {"Schedules": [{"Name": name} for name in self.schedules]}

    def get_schedule(self, **request: Any) -> dict[str, Any]:
        return self.schedules[request["Name"]]

    def create_schedule(self, **request: Any) -> None:
        if request["Name"] in self.refused:
            raise ClientError({"Error": {"Code": self.code, "Message": "refused"}}, "CreateSchedule")
        self.schedules[request["Name"]] = request

    update_schedule = create_schedule

    def delete_schedule(self, **request: Any) -> None:
        if request["Name"] in self.refused:
            raise ClientError({"Error": {"Code": self.code, "Message": "refused"}}, "DeleteSchedule")
        del self.schedules[request["Name"]]


def windows(scheduler: FakeScheduler) -> SchedulerWindows:
    return SchedulerWindows(scheduler, group="windows", role_arn="role", target_arn="disrupt")


@pytest.mark.parametrize(
    ("refused", "remaining"),
    [
        ("added", {"changed": FRIDAY, "last": FRIDAY}),
        ("changed", {"added": FRIDAY, "changed": SUNDAY, "last": FRIDAY}),
        ("dropped", {"added": FRIDAY, "changed": FRIDAY, "dropped": MONDAY, "last": FRIDAY}),
    ],
)
def test_a_schedule_that_is_refused_harms_itself_only(refused: str, remaining: dict[str, str]) -> None:
    """If this failed, one window that EventBridge refuses would keep those of all other NodePools from opening on time."""
    scheduler = FakeScheduler(changed=SUNDAY, dropped=MONDAY)
    scheduler.refused = frozenset({refused})
    with pytest.raises(DeniedError):
        windows(scheduler).replace({"added": FRIDAY, "changed": FRIDAY, "last": FRIDAY})
    assert scheduler.expressions == remaining


def test_a_service_that_does_not_answer_is_asked_once() -> None:
    """If this failed, an outage of EventBridge would take a call and its retries for each window."""
    scheduler = FakeScheduler()
    scheduler.refused, scheduler.code = frozenset({"a"}), "ServiceUnavailable"
    with pytest.raises(TransientError):
        windows(scheduler).replace({"a": FRIDAY, "b": FRIDAY})
    assert scheduler.expressions == {}
