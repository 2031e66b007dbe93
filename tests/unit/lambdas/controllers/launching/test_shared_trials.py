"""Offerings that refused a while ago are tried by one launch of all clusters; the others wait for its answer."""

from __future__ import annotations

import msgspec
import pytest

from adapters.ports import RefusedOffering
from adapters.run_report import RunReport
from core.launch.denials.denial import FIRST_PAUSE, PROBE
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal
from lambdas.controllers.launching.launch_gate import Admission
from tests.builders import NOW
from tests.unit.lambdas.controllers.launching.gate_for_tests import CALL, World, admitted, refusal


@pytest.fixture
def world() -> World:
    return World()


def test_after_a_pause_one_launch_of_all_clusters_tries(world: World) -> None:
    """Otherwise, every cluster of the account asks for what was sold out in the moment in which its pause ends."""
    world.refused_a_while_ago()
    assert admitted(world.admit()).offerings == world.record.offerings
    found = world.of_another_cluster().admit(world.record, world.node_class, NOW)
    assert isinstance(found, Refusal)
    assert found.reason is ClaimReason.LAUNCH_HELD_BACK


def test_what_another_launch_tries_is_left_out(world: World) -> None:
    """It has other offerings, so it need not wait."""
    world.rows.refused[world.first.key] = NOW
    assert world.first in admitted(world.admit()).offerings
    other = admitted(world.of_another_cluster().admit(world.record, world.node_class, NOW)).offerings
    assert other == tuple(offering for offering in world.record.offerings if offering != world.first)


def test_what_was_tried_and_launched_is_open_to_all(world: World) -> None:
    """Otherwise, the second node of a burst waits for the next pause."""
    world.refused_a_while_ago()
    admission = admitted(world.admit())
    world.gate.succeeded(world.record, world.node_class, admission, {world.first.key}, (), NOW, RunReport())
    assert world.first.key not in world.rows.refused
    other = admitted(world.of_another_cluster().admit(world.record, world.node_class, NOW))
    assert other.offerings == world.record.offerings
    assert world.first.key not in other.probe.offerings


def test_what_was_tried_and_refused_is_avoided_by_all(world: World) -> None:
    world.refused_a_while_ago()
    admission = admitted(world.admit())
    refused = [RefusedOffering(world.first.key, "InsufficientInstanceCapacity")]
    world.gate.learn(world.record, world.node_class, admission, refused, CALL, NOW, RunReport())
    other = admitted(world.of_another_cluster().admit(world.record, world.node_class, NOW))
    assert world.first not in other.offerings
    assert len(other.offerings) == len(world.record.offerings) - 1, "what EC2 did not come to is tried by the next"


def test_a_trial_whose_answer_is_lost_ends_by_itself(world: World) -> None:
    """The function may have ended before EC2 answered."""
    world.refused_a_while_ago()
    assert isinstance(world.admit(), Admission)
    assert isinstance(world.admit(NOW + PROBE / 2), Refusal)
    assert admitted(world.admit(NOW + PROBE)).offerings == world.record.offerings


def test_a_claim_that_waits_for_a_denial_tries_nothing(world: World) -> None:
    """Otherwise, it keeps all clusters from offerings that it does not ask for."""
    world.refused_a_while_ago()
    world.learn("UnauthorizedOperation")
    later = NOW + FIRST_PAUSE
    admitted(world.admit(later))
    world.rows.probed.clear()
    assert isinstance(world.admit(later), Refusal)
    assert world.rows.probed == {}


def test_a_confined_launch_takes_nobodys_turn(world: World) -> None:
    """What it is refused is not written for others, and they would wait for its answer."""
    world.refused_a_while_ago()
    world.node_class["spec"] = {**world.node_class["spec"], "placementGroupSelector": {"name": "cluster"}}
    assert admitted(world.admit()).offerings == world.record.offerings
    assert world.rows.probed == {}


def test_a_claim_that_another_one_is_ahead_of_gives_back_what_it_would_have_tried(world: World) -> None:
    world.refused_a_while_ago()
    world.learn("UnauthorizedOperation")
    ((key, denial),) = world.rows.denials.items()

    def other_is_first(call: str) -> None:
        if call == "write" and world.rows.probed:
            world.rows.denials[key] = msgspec.structs.replace(denial, version=denial.version + 1)

    world.rows.before_call = other_is_first
    assert refusal(world.admit(NOW + FIRST_PAUSE)).startswith("another claim is retrying")
    assert world.rows.probed == {}
