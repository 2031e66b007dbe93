"""Faults: which calls they befall, how often, how long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from adapters.ports import LostReplyError, TransientError
from simulator.clock import VirtualClock
from simulator.invocation.faults import COPY_AFTER, ClusterCalls, CrashError, Fault, Faults, MessageFaults
from simulator.record import Event, Recorder

START = datetime(2026, 11, 20, tzinfo=UTC)


class Bench:
    """A clock, a record and the faults over them."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.events: list[Event] = []
        recorder = Recorder(self.clock)
        recorder.listen(self.events.append)
        self.faults = Faults(self.clock, recorder)
        self.messages = MessageFaults(self.clock, recorder)


@pytest.fixture
def bench() -> Bench:
    """A fresh one."""
    return Bench()


def test_each_attempt_uses_up_one(bench: Bench) -> None:
    """If this failed, `count: 2` would throttle one call or all."""
    bench.faults.arm("ec2:CreateFleet", Fault(kind="throttle"), count=2)
    kinds = [bench.faults.take("ec2:CreateFleet") for _ in range(3)]
    assert [fault and fault.kind for fault in kinds] == ["throttle", "throttle", None]
    assert [event.fields for event in bench.events] == [{"call": "ec2:CreateFleet", "kind": "throttle"}] * 2


@pytest.mark.parametrize(
    ("pattern", "call", "hit"),
    [
        ("ec2:*", "ec2:RunInstances", True),
        ("kube:create pods/eviction", "kube:create pods/eviction", True),
        ("kube:*", "ec2:CreateFleet", False),
        ("*", "kube:list pods", True),
        ("dynamodb:*Item", "dynamodb:PutItem", True),
        ("dynamodb:*Item", "dynamodb:Query", False),
        ("ec2:Create", "ec2:CreateFleet", False),
    ],
)
def test_patterns_match_whole_names(bench: Bench, pattern: str, call: str, hit: bool) -> None:
    """If this failed, a scenario would break calls that it does not name."""
    bench.faults.arm(pattern, Fault(kind="error"), count=1)
    assert (bench.faults.take(call) is not None) == hit


def test_a_fault_for_a_time_ends_with_it(bench: Bench) -> None:
    """If this failed, an outage of five minutes would never end."""
    bench.faults.arm("kube:*", Fault(kind="error"), lasting=timedelta(minutes=5))
    assert bench.faults.take("kube:list pods") is not None
    bench.clock.run_until(START + timedelta(minutes=5, seconds=1))
    assert bench.faults.take("kube:list pods") is None


def test_a_fault_that_nobody_ran_into_is_told(bench: Bench) -> None:
    """If this failed, a misspelt call would make a scenario pass for nothing."""
    bench.faults.arm("ec2:CreateFlet", Fault(kind="throttle"), count=1)
    bench.faults.arm("ec2:*", Fault(kind="throttle"), count=1)
    bench.faults.take("ec2:CreateFleet")
    assert bench.faults.unused() == ("ec2:CreateFlet",)


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("throttle", TransientError, None),
        ("error", TransientError, None),
        ("crashBefore", CrashError, None),
        ("crashAfter", None, CrashError),
        ("lostReply", None, LostReplyError),
    ],
)
def test_faults_on_the_cluster_strike_before_or_after_the_act(
    bench: Bench, kind: str, before: type[BaseException] | None, after: type[BaseException] | None
) -> None:
    """If this failed, a lost reply would be a call that was never made."""
    calls = ClusterCalls(bench.faults, bench.clock.spend)
    bench.faults.arm("kube:patch nodes", Fault(kind=kind), count=1)
    if before is not None:
        with pytest.raises(before):
            calls("kube:patch nodes", "before")
        return
    calls("kube:patch nodes", "before")
    assert after is not None
    with pytest.raises(after):
        calls("kube:patch nodes", "after")


def test_a_delay_lets_time_pass_and_the_call_go_on(bench: Bench) -> None:
    """If this failed, slow calls would be as fast as others."""
    calls = ClusterCalls(bench.faults, bench.clock.spend)
    bench.faults.arm("kube:list pods", Fault(kind="delay", delay=timedelta(seconds=20)), count=1)
    calls("kube:list pods", "before")
    calls("kube:list pods", "after")
    assert bench.clock.now() >= START + timedelta(seconds=20)


def test_the_next_messages_are_doubled_delayed_or_dropped(bench: Bench) -> None:
    """If this failed, handlers would never see a message twice, late or not at all."""
    seen: list[tuple[str, datetime]] = []
    for kind in ("duplicate", "delay", "drop"):
        bench.messages.arm(kind, 1, timedelta(seconds=90))
    for name in ("twice", "late", "lost", "normal"):
        bench.messages.carry("queue work", lambda name=name: seen.append((name, bench.clock.now())))
    bench.clock.run_until(START + timedelta(minutes=2))
    copy, late = ("twice", START + COPY_AFTER), ("late", START + timedelta(seconds=90))
    assert seen == [("twice", START), ("normal", START), copy, late]
