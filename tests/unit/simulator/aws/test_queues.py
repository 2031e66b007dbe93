"""Faults of the newer kinds, as a function's SDK meets them in the embedded account."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulator.aws.account import Account, Surroundings
from simulator.aws.ec2.instances import RUNNING, Instance, Subnet
from simulator.aws.installation import Pool, Region
from simulator.aws.queues import Message, Queue
from simulator.clock import VirtualClock, stream
from simulator.invocation import faults
from simulator.invocation.faults import Fault, Faults, MessageFaults
from simulator.record import Event, Recorder
from tests.builders import a_type

START = datetime(2026, 11, 20, tzinfo=UTC)
POOL = Pool("m5.large", "zone-a", "on-demand")


class Bench:
    """An account and its faults."""

    def __init__(self) -> None:
        self.clock, self.events = VirtualClock(START), list[Event]()
        recorder = Recorder(self.clock)
        recorder.listen(self.events.append)
        self.function = "execute"
        self.faults = Faults(self.clock, recorder, lambda: self.function)
        around = Surroundings(
            clock=self.clock,
            recorder=recorder,
            faults=self.faults,
            message_faults=MessageFaults(self.clock, recorder),
            bus=lambda *_: None,
            spend=self.clock.spend,
            seed=1,
        )
        self.account = Account(around, Region(types=(a_type("m5.large"),)))
        self.ec2 = self.account.session.client("ec2")

    def launch(self, name: str) -> None:
        """One instance that runs."""
        self.account.instances.launch(
            Instance(
                id=name,
                pool=POOL,
                image_id="ami-1",
                subnet=Subnet("subnet-1", "zone-a", "10.0.0.0/19", 100),
                private_ip="10.0.0.1",
                launched_at=self.clock.now(),
                price=1,
                token=name,
                tags={},
                state=RUNNING,
            )
        )

    def listed(self) -> dict[str, str]:
        """Instance → state, as EC2 tells them."""
        reservations = self.ec2.describe_instances()["Reservations"]
        return {i["InstanceId"]: i["State"]["Name"] for r in reservations for i in r["Instances"]}

    def recorded_calls(self) -> list[tuple[str, str, str]]:
        """The writes to EC2 that the record knows."""
        return [(e.fields["call"], e.fields["outcome"], e.fields["code"]) for e in self.events if e.event == "call"]


@pytest.fixture
def bench() -> Bench:
    """A fresh one."""
    return Bench()


def test_a_late_list_lacks_what_is_new_and_still_has_what_is_gone(bench: Bench) -> None:
    """If this failed, functions would never meet EC2's eventual consistency."""
    bench.launch("i-1")
    bench.clock.run_until(START + timedelta(seconds=30))
    bench.launch("i-2")
    bench.ec2.terminate_instances(InstanceIds=["i-1"])
    bench.faults.arm("ec2:DescribeInstances", Fault(kind=faults.STALE, delay=timedelta(seconds=5)), count=1)
    assert bench.listed() == {"i-1": "running"}
    assert bench.listed() == {"i-1": "shutting-down", "i-2": "running"}


def test_half_of_a_batch_is_terminated_and_the_caller_is_told_of_an_error(bench: Bench) -> None:
    """If this failed, a caller could rely on all or nothing."""
    for name in ("i-1", "i-2"):
        bench.launch(name)
    # The SDK tries an error of the server's four times: let none of them get through.
    bench.faults.arm("ec2:TerminateInstances", Fault(kind=faults.PARTIAL), count=10)
    with pytest.raises(ClientError):
        bench.ec2.terminate_instances(InstanceIds=["i-1", "i-2"])
    assert bench.listed() == {"i-1": "shutting-down", "i-2": "running"}
    assert {outcome for _, outcome, _ in bench.recorded_calls()} == {"error"}


def test_a_queue_may_deliver_in_any_order() -> None:
    """If this failed, functions could rely on an order that SQS does not promise."""
    queue, moment = Queue("work", 20), START
    for number in range(20):
        queue.messages[str(number)] = Message(id=str(number), body="", sent_at=moment, visible_at=moment)
    taken = queue.receive(moment, 20, timedelta(seconds=90), stream(1, "order"))
    assert [message.id for message in taken] != sorted(queue.messages, key=int)
    assert {message.id for message in taken} == set(queue.messages)


def test_half_of_a_batch_of_messages_is_taken(bench: Bench) -> None:
    """If this failed, `Failed` in an answer of SQS would never be met."""
    bench.faults.arm("sqs:SendMessageBatch", Fault(kind=faults.PARTIAL), count=1)
    entries = [{"Id": str(number), "MessageBody": "{}"} for number in range(5)]
    sqs = bench.account.session.client("sqs")
    answer: dict[str, Any] = sqs.send_message_batch(QueueUrl=bench.account.settings.work_queue_url, Entries=entries)
    assert (len(answer["Successful"]), [entry["Id"] for entry in answer["Failed"]]) == (2, ["2", "3", "4"])
    assert len(bench.account.queues.get("work").messages) == 2


@pytest.mark.parametrize(("code", "told"), [("", "UnauthorizedOperation"), ("VpcLimitExceeded", "VpcLimitExceeded")])
def test_a_denied_call_is_refused_with_its_code(bench: Bench, code: str, told: str) -> None:
    """If this failed, a missing permission would look like a passing trouble."""
    bench.launch("i-1")
    bench.faults.arm("ec2:TerminateInstances", Fault(kind=faults.DENIED, code=code), count=1)
    with pytest.raises(ClientError, match=told):
        bench.ec2.terminate_instances(InstanceIds=["i-1"])
    assert bench.recorded_calls() == [("ec2:TerminateInstances", "denied", told)]


def test_only_the_named_functions_nth_call_is_struck(bench: Bench) -> None:
    """If this failed, no call site could be addressed."""
    bench.faults.arm("kube:list pods", Fault(kind=faults.CRASH_BEFORE), function="execute", nth=2, count=1)
    struck = []
    for function in ("provision", "execute", "provision", "execute", "execute"):
        bench.function = function
        struck.append(bench.faults.take("kube:list pods") is not None)
    assert struck == [False, False, False, True, False]


def test_a_conflict_names_its_reason_for_each_operation(bench: Bench) -> None:
    """If this failed, a conflict of transactions could not be told from a condition that fails."""
    dynamo = bench.account.session.client("dynamodb")
    bench.faults.arm("dynamodb:TransactWriteItems", Fault(kind=faults.CONFLICT), count=1)
    item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
    table = bench.account.settings.table_name
    with pytest.raises(dynamo.exceptions.TransactionCanceledException) as raised:
        dynamo.transact_write_items(TransactItems=[{"Put": {"TableName": table, "Item": item}}])
    assert [reason["Code"] for reason in raised.value.response["CancellationReasons"]] == ["TransactionConflict"]
    assert list(bench.account.table.all()) == []
