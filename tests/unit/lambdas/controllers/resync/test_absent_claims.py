"""Runs of the schedule read no claims while there are none, and all of them as soon as there may be one."""

from __future__ import annotations

from core.brakes.brake import Brake, BrakeKind
from lambdas.controllers.resync.absent_claims import READ_EVERY
from tests.fakes.lab import Lab, a_pending_pod


def claim_reads(lab: Lab) -> list[str]:
    """Let every later reading of all claims be noted in the list that is returned."""
    read, claims = list[str](), lab.app.adapters.claims
    every = claims.all

    def noted() -> tuple[object, ...]:
        read.append("all")
        return every()

    claims.all = noted  # type: ignore[method-assign, assignment]  # a gauge on the way
    return read


def an_idle_lab() -> Lab:
    """Both functions have read that there are no claims."""
    lab = Lab()
    lab.provision()
    lab.disrupt()
    lab.clock.advance(minutes=1)
    return lab


def test_no_claims_are_read_while_there_are_none() -> None:
    lab = an_idle_lab()
    read = claim_reads(lab)
    lab.provision()
    lab.disrupt()
    assert read == []


def test_a_recorded_change_has_them_read_again() -> None:
    """Otherwise, `disrupt` finds a new node's claim minutes late."""
    lab = an_idle_lab()
    lab.app.provisioning.record_change()
    read = claim_reads(lab)
    lab.disrupt()
    lab.provision()
    assert len(read) == 2


def test_they_are_read_again_after_some_minutes() -> None:
    """A record may be lost."""
    lab = an_idle_lab()
    read = claim_reads(lab)
    lab.clock.pause(READ_EVERY)
    lab.provision()
    lab.disrupt()
    assert len(read) == 2


def test_a_message_has_them_read() -> None:
    lab = an_idle_lab()
    read = claim_reads(lab)
    lab.disrupt(is_woken=True)
    assert read


def test_a_cluster_that_was_empty_gets_its_nodes_and_gives_them_back() -> None:
    lab = an_idle_lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    assert lab.claims
    lab.disrupt()
    read = claim_reads(lab)
    lab.disrupt()
    assert read, "claims exist, so they are read"


def test_a_brake_is_not_read_while_nothing_waits() -> None:
    """It would stop nothing; with a pending pod it does."""
    lab = an_idle_lab()
    lab.brakes.hold(Brake(BrakeKind.STOP, "a person stopped it"), lab.clock.now())
    assert "stopped" not in lab.provision().counts
    lab.kubernetes.put(a_pending_pod("p"))
    assert "stopped" in lab.provision().counts
    assert not lab.claims
