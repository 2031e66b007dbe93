"""Evictions of a workload wait for a second after one of its pods was deleted by force."""

from __future__ import annotations

from datetime import timedelta
from threading import Thread

import pytest

from adapters.ports import LostReplyError
from adapters.run_report import RunReport
from core.lifecycle.records import Deletion
from core.lifecycle.steps import Drain
from core.model.pod import Owner, Pod
from core.reasons.termination import TerminationReason
from lambdas.controllers.draining.evictor import Evictor
from lambdas.controllers.draining.forced_deletions import COUNTED_AFTER, ForcedDeletions
from tests.builders import NOW, a_pod
from tests.fakes.world import FakeClock

DELETION = Deletion(reason=TerminationReason.EXPIRED, asked_at=NOW, tainted_at=NOW)


def of_web(name: str) -> Pod:
    return a_pod(name, owners=(Owner(kind="ReplicaSet", name="web", is_controller=True),))


def test_only_the_workload_waits_and_only_for_a_second() -> None:
    clock = FakeClock(NOW)
    forced = ForcedDeletions(clock)
    forced.note(of_web("a"))
    assert forced.wait(of_web("b")) == COUNTED_AFTER
    assert forced.wait(a_pod("c")) == timedelta(0)
    clock.advance(seconds=1)
    assert forced.wait(of_web("b")) == timedelta(0)


class _Server:
    """An API server in whose call of `delete` something happens before the reply."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.evictor = Evictor(self, FakeClock(NOW))  # type: ignore[arg-type]

    def delete(self, *_: object, **__: object) -> None:
        self.calls.append("delete")
        self.before_reply()

    def evict(self, *_: object, **__: object) -> None:
        self.calls.append("evict")

    def before_reply(self) -> None:
        raise NotImplementedError

    def drain(self, *, force: tuple[Pod, ...] = (), evict: tuple[Pod, ...] = ()) -> None:
        step = Drain(evict=evict, force=tuple((pod, 1) for pod in force))
        self.evictor.carry_out(step, DELETION, "node", RunReport())


class _OtherThread(_Server):
    def before_reply(self) -> None:
        other = Thread(target=lambda: self.drain(evict=(of_web("b"),)))
        other.start()
        other.join()


class _LostReply(_Server):
    def before_reply(self) -> None:
        raise LostReplyError("kube:delete pods", "timed out")


@pytest.mark.parametrize("server", [_OtherThread, _LostReply])
def test_a_deletion_counts_before_its_reply_and_without_one(server: type[_Server]) -> None:
    """Claims of one message are handled in threads, and a lost reply leaves open whether the pod goes."""
    found = server()
    found.drain(force=(of_web("a"),), evict=(of_web("c"),))
    assert found.calls == ["delete"]
