"""Reads that a run can do without, or whose failure is the cause of another alarm, are not among the missing permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapters.aws.market import PRICES_FRESH_FOR, AwsMarket
from adapters.aws.quotas import AwsQuotas
from adapters.aws.services import AwsService
from adapters.aws.session import translate
from adapters.composition.functions import Adapters, session_of_environment
from adapters.observability import MISSING_PERMISSIONS, RefusedCall
from adapters.ports import PortError
from core.brakes import Brake, BrakeKind
from core.catalogue.build import MarketFacts
from core.catalogue.document import Market
from core.model.values.quotas import QuotaReading
from infra.packaging.start import ENVIRONMENT
from installation.settings import Settings
from simulator.market.embedded import builtin_shapes
from tests.builders import NOW
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.world import FakeClock


def forbidden(action: str) -> PortError:
    message = f"User: arn:aws:sts::1:x is not authorized to perform: {action}"
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": message}}, action.partition(":")[2])
    return translate(action, error)


class Refusing(AwsService):
    """A service that refuses some operations, and answers all others with empty lists."""

    name = "kill switch"

    def __init__(self, *actions: str) -> None:
        super().__init__()
        self._actions = {action.partition(":")[2]: action for action in actions}

    def call(self, operation: str, **_: Any) -> dict[str, Any]:
        if operation in self._actions:
            raise forbidden(self._actions[operation])
        return {}

    def read(self) -> tuple[Brake, ...]:
        self.call("GetParameter")
        return ()


@pytest.fixture(autouse=True)
def _a_run() -> Iterator[None]:
    MISSING_PERMISSIONS.begin()
    yield
    MISSING_PERMISSIONS.begin()


def first_quotas() -> None:
    service = Refusing("servicequotas:ListServiceQuotas")
    with pytest.raises(PortError):
        AwsQuotas(service, service, clock=FakeClock(NOW)).read(None)


def later_quotas() -> None:
    service = Refusing("servicequotas:ListServiceQuotas")
    before = QuotaReading(limits={}, used={}, limits_read_at=NOW - timedelta(hours=2), used_read_at=NOW)
    assert AwsQuotas(service, service, clock=FakeClock(NOW)).read(before).problems


def prices() -> None:
    service = Refusing("pricing:GetProducts", "ec2:DescribeSpotPriceHistory", "ec2:DescribeInstanceTypes")
    old = NOW - 100 * PRICES_FRESH_FOR
    market = Market(region="us-east-1", on_demand={"m5.large": 96_000_000})
    before = MarketFacts(shapes=builtin_shapes()[:1], market=market, shapes_read_at=old, prices_read_at=old)
    facts = AwsMarket(service, service, region="us-east-1", clock=FakeClock(NOW)).read(before)
    assert len(facts.problems) == 3


def brakes() -> None:
    adapters = Adapters(Settings.from_environment(ENVIRONMENT), session_of_environment(), FakeClock(NOW))
    vars(adapters).update(kill_switch=(Refusing("ssm:GetParameter"),), brake_rows=Refusing())
    (engaged,) = adapters.brakes.engaged().brakes
    assert engaged.kind is BrakeKind.UNREADABLE


def ledger() -> None:
    lab = Lab()
    lab.ledger.broken = forbidden("s3:PutObject")
    lab.kubernetes.put(a_pending_pod("p"))
    assert lab.provision().counts["ledgerFailures"] == 1


@pytest.mark.parametrize("read", [first_quotas, later_quotas, prices, brakes, ledger])
def test_it_is_left_out(read: Callable[[], None]) -> None:
    """A service control policy that denies quotas undid each update, and a refused parameter rang two alarms."""
    read()
    assert MISSING_PERMISSIONS.calls() == {}


def test_what_other_readers_need_is_not_left_out() -> None:
    """Instances are read for much else: nobody should deny that call."""
    service = Refusing("ec2:DescribeInstances")
    before = QuotaReading(limits={}, used={}, limits_read_at=NOW, used_read_at=NOW)
    assert AwsQuotas(service, service, clock=FakeClock(NOW)).read(before).problems
    assert MISSING_PERMISSIONS.calls() == {RefusedCall("ec2:DescribeInstances", "not named"): 1}
