"""Reading quotas from AWS, storing them, and what a run says of faults."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import IncompleteReadError

from adapters.aws.quotas import LIMITS_DUE_AFTER, AwsQuotas, S3QuotaStore
from adapters.aws.services import AwsService
from adapters.ports import DeniedError, PortError
from adapters.run_report import RunReport
from core import labels
from core.model.values.quotas import STANDARD, QuotaReading
from core.reasons.runs import RunReason
from lambdas.controllers.refresh import QuotaRefresh
from tests.builders import NOW
from tests.fakes.account import FakeAccount
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock


class FakeEc2(AwsService):
    """EC2 with these instances, and Service Quotas with one quota; `fails` has the operations that are denied."""

    def __init__(self, *instances: dict[str, Any]) -> None:
        super().__init__()
        self.instances = instances
        self.limit: float | None = 64.0
        self.fails: set[str] = set()
        self.called: list[str] = []

    def call(self, operation: str, **_: Any) -> dict[str, Any]:
        self.called.append(operation)
        if operation in self.fails:
            raise DeniedError(operation, "not allowed")
        if operation == "ListServiceQuotas":
            quotas = [{"QuotaCode": STANDARD.on_demand, "Value": self.limit}, {"QuotaCode": "L-OTHER", "Value": 5.0}]
            return {"Quotas": quotas}
        return {"Reservations": [{"Instances": [instance]} for instance in self.instances]}


def an_instance(name: str, cores: int, *, tenancy: str = "default", **more: Any) -> dict[str, Any]:
    tags = [{"Key": key, "Value": value} for key, value in more.pop("tags", {}).items()]
    return {
        "InstanceType": name,
        "CpuOptions": {"CoreCount": cores, "ThreadsPerCore": 2},
        "Placement": {"Tenancy": tenancy},
        "Tags": tags,
        **more,
    }


OURS = {labels.CLUSTER_TAG: "prod", labels.NODECLAIM: "default-1", labels.CLAIM: "default-1"}
OF_A_SHARED_LAUNCH = {labels.CLUSTER_TAG: "prod", labels.LAUNCH: "launch-1"}
KARPENTERS = {labels.CLUSTER_TAG: "prod", labels.NODECLAIM: "default-x2x4z"}
NODE_GROUP = {labels.CLUSTER_TAG: "prod"}


def test_instances_count_by_quota_and_by_whose_they_are() -> None:
    """Other clusters' nodes are others' to this one; those of a managed node group of ours, too, and of Karpenter beside us."""
    aws = FakeEc2(
        an_instance("m5.large", 1, tags=OURS),
        an_instance("m5.large", 1, tags=OF_A_SHARED_LAUNCH),
        an_instance("m5.large", 1, tags=NODE_GROUP),
        an_instance("m5.large", 1, tags=KARPENTERS),
        an_instance("c7g.large", 1, InstanceLifecycle="spot"),
        an_instance("r5.2xlarge", 4, tenancy="host"),
    )
    reading = AwsQuotas(aws, aws, clock=FakeClock(NOW)).read(None)
    assert reading.limits == {STANDARD.on_demand: 64}
    assert reading.used == {"": {STANDARD.on_demand: 4, STANDARD.spot: 2}, "prod": {STANDARD.on_demand: 4}}


def test_limits_are_read_every_hour_and_instances_every_time() -> None:
    """People raise quotas rarely."""
    aws, clock = FakeEc2(an_instance("m5.xlarge", 2)), FakeClock(NOW)
    quotas = AwsQuotas(aws, aws, clock=clock)
    first = quotas.read(None)
    aws.called.clear()
    clock.advance(minutes=5)
    quotas.read(first)
    assert aws.called == ["DescribeInstances"]
    aws.limit = 128.0
    clock.advance(seconds=LIMITS_DUE_AFTER.total_seconds())
    later = quotas.read(first)
    assert (later.limits[STANDARD.on_demand], later.limits_read_at) == (128, clock.now())


def test_limits_are_read_each_time_while_one_is_short() -> None:
    """Pods wait for the raise, and it counts within minutes."""
    aws, clock = FakeEc2(an_instance("m5.16xlarge", 30)), FakeClock(NOW)
    quotas = AwsQuotas(aws, aws, clock=clock)
    first = quotas.read(None)
    aws.limit = 640.0
    clock.advance(minutes=5)
    assert quotas.read(first).limits[STANDARD.on_demand] == 640


def test_a_quota_without_a_value_bounds_nothing() -> None:
    """Service Quotas lists some that it cannot read, with a reason for the error."""
    aws = FakeEc2()
    aws.limit = None
    assert AwsQuotas(aws, aws, clock=FakeClock(NOW)).read(None).limits == {}


@pytest.mark.parametrize("operation", ["ListServiceQuotas", "DescribeInstances"])
def test_what_cannot_be_read_stays_as_it_was_with_its_age(operation: str) -> None:
    """An outdated count is recognized by its age."""
    aws, clock = FakeEc2(an_instance("m5.xlarge", 2)), FakeClock(NOW)
    quotas = AwsQuotas(aws, aws, clock=clock)
    first = quotas.read(None)
    aws.fails = {operation}
    aws.instances = ()
    clock.advance(hours=1)
    second = quotas.read(first)
    is_limits = operation == "ListServiceQuotas"
    assert second.limits_read_at == (NOW if is_limits else clock.now())
    assert second.used_read_at == (clock.now() if is_limits else NOW)
    assert bool(second.used) != is_limits
    assert len(second.problems) == 1
    with pytest.raises(PortError):
        quotas.read(None)


def test_a_run_that_reads_nothing_says_so_and_goes_on() -> None:
    """The market is more important than its quotas."""
    aws, store, report = FakeEc2(), Rows().quotas, RunReport()
    aws.fails = {"ListServiceQuotas"}
    QuotaRefresh(AwsQuotas(aws, aws, clock=FakeClock(NOW)), store).refresh(report)
    assert store.reading() is None
    assert [decision.reason for decision in report.decisions] == [RunReason.QUOTAS_NOT_READ]


def test_a_reading_that_says_the_same_is_stored_only_before_the_stored_one_is_old() -> None:
    """Writes every five minutes would cost more than all other requests of an idle cluster to its bucket."""
    aws, store, clock = FakeEc2(), Rows().quotas, FakeClock(NOW)
    refresh = QuotaRefresh(AwsQuotas(aws, aws, clock=clock), store)
    stored = []
    for _ in range(7):
        refresh.refresh(RunReport())
        reading = store.reading()
        assert reading is not None
        assert reading.is_fresh(clock.now())
        stored.append((reading.used_read_at - NOW) // timedelta(minutes=1))
        clock.advance(minutes=5)
    assert stored == [0, 0, 0, 15, 15, 15, 30]
    aws.instances = (an_instance("m5.large", 1),)
    refresh.refresh(RunReport())
    reading = store.reading()
    assert reading is not None
    assert reading.used == {"": {STANDARD.on_demand: 2}}


def test_the_simulated_account_answers_alike_and_the_store_keeps_it() -> None:
    """What is written by one function is read by others."""
    account = FakeAccount(vcpu_quotas={STANDARD.spot: 8})
    ec2, service_quotas = (AwsService(account.client(name)) for name in ("ec2", "service-quotas"))
    store = S3QuotaStore(AwsService(account.client("s3")), account.account.settings.bucket_name)
    assert store.reading() is None
    QuotaRefresh(AwsQuotas(service_quotas, ec2, clock=account.clock), store).refresh(RunReport())
    kept = store.reading()
    assert isinstance(kept, QuotaReading)
    assert kept.left_to("prod", account.clock.now()) == {STANDARD.spot: 8}


class FakeS3(AwsService):
    """S3 with one object; `breaks` where its body breaks off."""

    def __init__(self, body: bytes, *, breaks: bool = False) -> None:
        super().__init__()
        self.body, self.breaks = body, breaks

    def call(self, operation: str, **_: Any) -> dict[str, Any]:
        return {"Body": self}

    def read(self) -> bytes:
        if self.breaks:
            raise IncompleteReadError(actual_bytes=1, expected_bytes=2)
        return self.body


@pytest.mark.parametrize("body", [b"", b"{", b'{"limits": 3}'])
def test_a_reading_that_another_version_wrote_is_none(body: bytes) -> None:
    """Every plan reads it: one that fails would stop all launches, and the next refresh would not replace it."""
    assert S3QuotaStore(FakeS3(body), "bucket").reading() is None


def test_a_reading_that_breaks_off_is_a_fault_of_the_port() -> None:
    """Plans go on without it."""
    with pytest.raises(PortError):
        S3QuotaStore(FakeS3(b"{", breaks=True), "bucket").reading()
