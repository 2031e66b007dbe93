"""Brakes as AWS keeps them, on moto's answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import msgspec
import pytest
from botocore.stub import Stubber

from adapters.aws.brakes import DynamoBrakes, KillSwitch, PausingAlarms, ZonalShifts
from adapters.aws.dynamodb import table
from adapters.aws.dynamodb.table import DynamoTable
from adapters.aws.services import AwsService
from adapters.brakes import FRESH_FOR, Panel
from adapters.ports import DeniedError
from core.brakes import Action, Brake, BrakeKind, EngagedBrakes
from core.breakers import FIRST_PAUSE, OPENS_AFTER
from core.manifests.wire import resources
from lambdas.handlers import disrupt, provision, reconcile
from tests.builders import NOW
from tests.contract.stored_bodies import with_news
from tests.fakes.lab import SETTINGS, a_pending_pod, aws
from tests.fakes.world import FakeClock
from tests.integration.test_handlers import Context, Deployed, decided, deployed

PARAMETER = "/fleetwright/test/mode"


@pytest.fixture
def session() -> Iterator[boto3.Session]:
    with aws() as session:
        yield session


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW)


@pytest.fixture
def rows(session: boto3.Session, clock: FakeClock) -> DynamoBrakes:
    return DynamoBrakes(DynamoTable(session.client("dynamodb"), SETTINGS.table_name), "test", clock)


def kinds(brakes: EngagedBrakes) -> list[BrakeKind]:
    return [brake.kind for brake in brakes.brakes]


def set_mode(session: boto3.Session, mode: str) -> None:
    session.client("ssm").put_parameter(Name=PARAMETER, Value=mode, Type="String", Overwrite=True)


def test_the_kill_switch_is_noticed_while_a_reading_is_valid(session: boto3.Session, clock: FakeClock) -> None:
    panel = Panel([KillSwitch(AwsService(session.client("ssm")), PARAMETER)], clock)
    set_mode(session, "run")
    assert kinds(panel.engaged()) == []
    set_mode(session, "stop")
    assert kinds(panel.engaged()) == []
    clock.pause(FRESH_FOR)
    assert kinds(panel.engaged()) == [BrakeKind.STOP]


def test_a_deleted_parameter_keeps_its_last_value_and_stops_voluntary_disruption(
    session: boto3.Session, clock: FakeClock
) -> None:
    panel = Panel([KillSwitch(AwsService(session.client("ssm")), PARAMETER)], clock)
    set_mode(session, "stop")
    panel.engaged()
    session.client("ssm").delete_parameter(Name=PARAMETER)
    clock.pause(FRESH_FOR)
    assert kinds(panel.engaged()) == [BrakeKind.STOP, BrakeKind.UNREADABLE]


def test_a_kill_switch_that_was_never_read_allows_launches(session: boto3.Session, clock: FakeClock) -> None:
    brakes = Panel([KillSwitch(AwsService(session.client("ssm")), PARAMETER)], clock).engaged()
    assert brakes.stopping(Action.LAUNCH) is None
    assert brakes.stopping(Action.DISRUPT) is not None


def test_an_alarm_pauses_while_it_is_in_alarm_and_a_missing_one_always(session: boto3.Session) -> None:
    cloudwatch = session.client("cloudwatch")
    for name in ("errors", "latency"):
        cloudwatch.put_metric_alarm(
            AlarmName=name,
            Namespace="shop",
            MetricName=name,
            Period=60,
            EvaluationPeriods=1,
            Threshold=1,
            Statistic="Sum",
            ComparisonOperator="GreaterThanThreshold",
        )
    alarms = PausingAlarms(AwsService(cloudwatch), ["errors", "latency", "typo"])
    cloudwatch.set_alarm_state(AlarmName="errors", StateValue="ALARM", StateReason="test")
    cloudwatch.set_alarm_state(AlarmName="latency", StateValue="INSUFFICIENT_DATA", StateReason="test")
    assert [brake.message.split()[1] for brake in alarms.read()] == ["errors", "typo"]


def test_only_shifts_that_are_applied_close_a_zone(session: boto3.Session) -> None:
    """One that another shift overrides would close a second zone for hours; an unregistered cluster has none."""
    arc, cluster = session.client("arc-zonal-shift"), "arn:aws:eks:us-east-1:123456789012:cluster/prod"
    at = {"startTime": NOW, "expiryTime": NOW, "comment": "", "resourceIdentifier": cluster}
    shifts = [
        {**at, "zonalShiftId": f"shift-{zone[-1]}", "awayFrom": zone, "appliedStatus": status}
        for zone, status in (("use1-az1", "APPLIED"), ("use1-az2", "NOT_APPLIED"))
    ]
    automatic = [{"startTime": NOW, "awayFrom": "use1-az3", "appliedStatus": "APPLIED"}]
    with Stubber(arc) as stub:
        stub.add_response(
            "get_managed_resource", {"appliedWeights": {}, "zonalShifts": shifts, "autoshifts": automatic}
        )
        stub.add_client_error("get_managed_resource", "ResourceNotFoundException", http_status_code=404)
        away = ZonalShifts(AwsService(arc), cluster)
        assert [brake.zone for brake in away.read()] == ["use1-az1", "use1-az3"]
        assert away.read() == ()


def test_a_brake_that_a_function_holds_is_engaged_until_it_is_released(rows: DynamoBrakes) -> None:
    brake = Brake(BrakeKind.UNKNOWN_INSTANCES, "7 of 20 instances are unknown")
    rows.hold(brake, NOW)
    rows.hold(brake, NOW)
    assert rows.read() == rows.held() == (brake,)
    rows.release(BrakeKind.UNKNOWN_INSTANCES)
    rows.release(BrakeKind.UNKNOWN_INSTANCES)
    assert rows.read() == ()


def test_a_breaker_opens_pauses_tries_and_closes(rows: DynamoBrakes, clock: FakeClock) -> None:
    assert [rows.failed("a", "did not join", NOW) for _ in range(OPENS_AFTER)] == [False] * (OPENS_AFTER - 1) + [True]
    rows.failed("b", "did not join", NOW)
    assert [(brake.kind, brake.node_pool) for brake in rows.read()] == [(BrakeKind.POOL_BREAKER, "a")]
    clock.pause(FIRST_PAUSE)
    assert [brake.kind for brake in rows.read()] == [BrakeKind.POOL_PROBE]
    assert rows.joined("a", clock.now())
    assert rows.read() == ()
    assert not rows.joined("a", clock.now())


def test_results_are_kept_for_their_generation(rows: DynamoBrakes, clock: FakeClock) -> None:
    rows.failed("a", "did not join", NOW)
    rows.joined("a", NOW)
    rows.renew("a", "1/1", NOW)
    assert [(found.node_pool, found.results, found.generations) for found in rows.breakers()] == [
        ("a", (False, True), "1/1")
    ]
    rows.renew("a", "2/1", NOW)
    assert [found.results for found in rows.breakers()] == [()]


def test_an_unreadable_row_counts_as_a_brake(session: boto3.Session, clock: FakeClock) -> None:
    table = DynamoTable(session.client("dynamodb"), SETTINGS.table_name)
    rows = DynamoBrakes(table, "test", clock)
    table.put({"pk": {"S": "test#brakes"}, "sk": {"S": "held#Novel#"}, "body": {"S": '{"kind": "Novel"}'}})
    with pytest.raises(DeniedError):
        rows.read()
    assert kinds(Panel([rows], clock).engaged()) == [BrakeKind.UNREADABLE]


# An update and a roll-back in the middle of nodes' lives: each step finds rows that another release has written.


__all__ = ["deployed"]

STEPS = 20
"""An empty node is gone sooner: a look, a check 15 s later, the drain, the instance."""


def of_tomorrow(record: Any) -> bytes:
    """The row as a later release writes it: each of its objects has a field that this one does not know."""
    return json.dumps(with_news(json.loads(msgspec.json.encode(record)), type(record))).encode()


def of_yesterday(record: Any) -> bytes:
    """The row as an earlier release writes it: fields that are at their default did not exist yet."""
    body = json.loads(msgspec.json.encode(record))
    defaults = {field.name: field for field in msgspec.structs.fields(record) if not field.required}
    return json.dumps({k: v for k, v in body.items() if k not in defaults or v != defaults[k].default}).encode()


@pytest.fixture(params=[of_tomorrow, of_yesterday], ids=["after a roll-back", "after an update"])
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Every row is rewritten as the other release has it when it is stored; type of those that were → their keys."""
    seen: dict[str, set[str]] = {}
    item = table.RecordItems.item

    def rewritten(self: Any, sort: str, record: Any) -> Any:
        seen.setdefault(type(record).__name__, set()).add(sort)
        return {**item(self, sort, record), "body": table.packed(request.param(record))}

    monkeypatch.setattr(table.RecordItems, "item", rewritten)
    return seen


def test_a_node_lives_through_an_update_and_a_roll_back(deployed: Deployed, written: dict[str, set[str]]) -> None:
    """Otherwise, its claim cannot be read: the node is ended, or nobody knows that it is to go."""
    lab, context = deployed.lab, Context()
    lab.kubernetes.put(a_pending_pod("p"))
    assert decided(provision.handler({}, context)) == [("launch", "Launched")]
    lab.boot()
    claim = lab.cloud.instances()[0].tags["fleetwright.dev/claim"]
    assert decided(deployed.execute({"claim": claim})) == [("register", "NodeJoined")]
    lab.clock.advance(seconds=3)
    assert deployed.execute({"claim": claim})["boundPods"] == 1
    lab.clock.advance(seconds=3)
    assert decided(deployed.execute({"claim": claim})) == [("initialize", "NodeReady")]
    assert decided(reconcile.handler({}, context)) == []
    lab.kubernetes.drop(resources.PODS, "p", "default")
    for _ in range(STEPS):
        lab.clock.advance(seconds=15)
        disrupt.handler({}, context)
        deployed.execute(
            *({"command": command} for command in sorted(written.get("CommandRecord", ()))), {"claim": claim}
        )
        if not lab.kubernetes.names(resources.NODES):
            break
    assert lab.kubernetes.names(resources.NODES) == []
    assert lab.cloud.instances() == ()
    assert {"ClaimRecord", "CommandRecord"} <= set(written)
