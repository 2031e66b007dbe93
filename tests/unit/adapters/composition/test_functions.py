"""Which adapters a function has follows from its settings."""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import msgspec
import pytest

from adapters.composition.functions import Adapters
from core.brakes import BrakeKind
from tests.builders import NOW
from tests.fakes.lab import SETTINGS, aws
from tests.fakes.world import FakeClock

SWITCH, ALARM = "/fleetwright/mode", "errors"
BRAKES = {"kill_switch_parameter": SWITCH, "pausing_alarms": f"quiet\n{ALARM}"}
ARN = "arn:aws:lambda:us-east-1:123456789012:function:disrupt"


@pytest.fixture
def session() -> Iterator[boto3.Session]:
    """An account in which the kill switch says `stop`, and one alarm of two is in ALARM."""
    with aws() as session:
        session.client("ssm").put_parameter(Name=SWITCH, Value="stop", Type="String")
        alarms = session.client("cloudwatch")
        for name in ("quiet", ALARM):
            alarms.put_metric_alarm(
                AlarmName=name,
                MetricName="m",
                Namespace="n",
                EvaluationPeriods=1,
                ComparisonOperator="GreaterThanThreshold",
                Threshold=1,
                Period=60,
                Statistic="Sum",
            )
        alarms.set_alarm_state(AlarmName=ALARM, StateValue="ALARM", StateReason="r")
        yield session


def adapters(session: boto3.Session, **settings: str) -> Adapters:
    return Adapters(msgspec.structs.replace(SETTINGS, **settings), session, FakeClock(NOW))


@pytest.mark.parametrize(
    ("settings", "engaged"),
    [
        ({}, []),
        ({"kill_switch_parameter": SWITCH}, [BrakeKind.STOP]),
        (BRAKES, [BrakeKind.STOP, BrakeKind.ALARM]),
        ({**BRAKES, "mode": "shadow"}, []),
    ],
)
def test_brakes_are_those_that_the_settings_name(
    session: boto3.Session, settings: dict[str, str], engaged: list[BrakeKind]
) -> None:
    """With `mode: shadow` nothing acts that could be stopped, and no role may ask."""
    present = adapters(session, **settings).brakes.engaged()
    assert [brake.kind for brake in present.brakes] == engaged


def test_what_the_settings_do_not_name_is_not_there(session: boto3.Session) -> None:
    bare = adapters(session)
    assert (bare.approval_topic, bare.command_topic, bare.windows, bare.kill_switch) == (None, None, None, ())
    complete = adapters(session, approval_topic_arn="arn:aws:sns:us-east-1:1:t", disrupt_function_arn=ARN)
    assert complete.approval_topic is not None
    assert complete.windows is not None
    assert adapters(session, command_topic_arn="arn:aws:sns:us-east-1:1:t").command_topic is not None


def test_a_shadow_reads_no_table(session: boto3.Session) -> None:
    """It has none: what it shows of claims are Karpenter's."""
    session.client("dynamodb").delete_table(TableName=SETTINGS.table_name)
    shadow = adapters(session, mode="shadow")
    assert shadow.stores.claims.all() == ()
    assert shadow.targets.read() is None


def test_what_an_embedder_brings_is_used(session: boto3.Session) -> None:
    clock = FakeClock(NOW)
    brought = {name: object() for name in ("kubernetes", "catalogue_source", "catalogues")}
    embedded = Adapters(SETTINGS, session, clock, **brought)  # type: ignore[arg-type] - nothing is asked of them here
    assert {name: getattr(embedded, name) for name in brought} == brought
    assert embedded.region == "us-east-1"
