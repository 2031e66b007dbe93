"""How far a turn's bindings are written: in order, for a while, and as long as they are permitted."""

from __future__ import annotations

import pytest

from adapters.ports import ConflictError, DeniedError, NotFoundError, PortError, TransientError
from adapters.runtime.parallel_tasks import in_turn
from core.lifecycle.binding.turn import DecidedBinding
from lambdas.controllers.batches.binding.binding_writer import REFUSALS, WRITE_WITHIN, BindingWriter
from tests.builders import NOW, a_pod
from tests.fakes.lab import a_pending_pod
from tests.fakes.world import FakeClock, FakeKubernetes

CALL = "create pods/binding"
CHAIN = [DecidedBinding("claim", a_pod(f"p{number}"), "node") for number in range(6)]


@pytest.fixture
def kubernetes() -> FakeKubernetes:
    found = FakeKubernetes(FakeClock(NOW))
    found.put(*(a_pending_pod(binding.pod.name) for binding in CHAIN))
    return found


def failing(kubernetes: FakeKubernetes, *errors: PortError | None) -> None:
    """Answer the first bindings with these; those after them succeed."""
    left = list(errors)

    def answer(call: str) -> None:
        error = left.pop(0) if call == CALL and left else None
        if error is not None:
            raise error

    kubernetes.before_call = answer


def test_no_binding_is_begun_once_the_time_is_over(kubernetes: FakeKubernetes) -> None:
    """A turn that writes on after its lease binds beside the next one."""
    clock = FakeClock(NOW)

    def slow(_: str) -> None:
        clock.pause(WRITE_WITHIN / 4)

    kubernetes.before_call = slow
    written = BindingWriter(kubernetes, clock, in_turn).write([CHAIN])
    assert written.bound == CHAIN[:4]
    assert clock.now() - NOW == WRITE_WITHIN


@pytest.mark.parametrize(
    ("error", "taken", "refused"),
    [
        (ConflictError(CALL, "409"), 1, 0),
        (NotFoundError(CALL, "404"), 1, 0),
        (DeniedError(CALL, "403"), 0, 1),
        (TransientError(CALL, "500"), 0, 0),
    ],
)
def test_what_follows_a_failure_in_its_chain_waits(
    kubernetes: FakeKubernetes, error: PortError, taken: int, refused: int
) -> None:
    """It was decided for pods that are there; another chain does not depend on it."""
    failing(kubernetes, None, error)
    written = BindingWriter(kubernetes, FakeClock(NOW), in_turn).write([CHAIN[:3], CHAIN[3:]])
    assert written.bound == [CHAIN[0], *CHAIN[3:]]
    assert (written.taken, len(written.refusals.get("claim", {}))) == (taken, refused)


def test_a_claim_whose_bindings_are_not_permitted_is_given_up_after_a_few(kubernetes: FakeKubernetes) -> None:
    failing(kubernetes, *[DeniedError(CALL, "403 a webhook says no")] * REFUSALS)
    written = BindingWriter(kubernetes, FakeClock(NOW), in_turn).write([[binding] for binding in CHAIN])
    assert written.bound == []
    assert written.refusals == {
        "claim": dict.fromkeys((b.pod.key for b in CHAIN[:REFUSALS]), str(DeniedError(CALL, "403 a webhook says no")))
    }
    assert (written.is_refused("claim"), written.is_refused("another")) == (True, False)
