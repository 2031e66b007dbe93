"""Instances of a shared launch carry the names of their claims before their nodes join."""

from __future__ import annotations

import pytest

from adapters.ports import DeniedError, TransientError
from core import labels
from core.lifecycle.claims import BOOT_AT_LEAST
from tests.fakes.lab import Lab, a_pending_pod

CLAIMS = 3
AT_LEAST = BOOT_AT_LEAST.total_seconds()


@pytest.fixture
def lab() -> Lab:
    """Claims that share a launch."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(CLAIMS)))
    lab.provision()
    assert [claim.shares for claim in lab.claims] == [CLAIMS] * CLAIMS
    return lab


def named(lab: Lab) -> set[str]:
    """The claims whose instances carry their names."""
    tags = {found.instance_id: found.tags for found in lab.cloud.instances()}
    keys = ("Name", labels.NODECLAIM, labels.CLAIM)
    launched = [claim for claim in lab.claims if claim.machine is not None]
    return {claim.name for claim in launched if {tags[claim.instance_id].get(key) for key in keys} == {claim.name}}


def test_the_first_check_of_a_claim_names_its_instance(lab: Lab) -> None:
    assert named(lab) == set()
    lab.tick(seconds=AT_LEAST)
    assert named(lab) == {claim.name for claim in lab.claims}


def test_later_checks_name_nothing_again(lab: Lab) -> None:
    calls: list[str] = []
    lab.cloud.before_call = calls.append
    lab.tick(seconds=AT_LEAST)
    lab.tick(4, seconds=2)
    assert calls.count("tag") == CLAIMS


def test_an_instance_whose_launch_was_not_answered_is_named_once_it_is_found() -> None:
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(CLAIMS)))

    def lose(call: str) -> None:
        if call == "launch":
            lab.cloud.after_call = lambda _: None
            raise TransientError("ec2:CreateFleet", "the answer is lost")

    lab.cloud.after_call = lose
    lab.provision()
    assert named(lab) == set()
    lab.tick(12)
    assert named(lab) == {claim.name for claim in lab.claims}


def test_a_refused_name_stops_no_check(lab: Lab) -> None:
    def deny(call: str) -> None:
        if call == "tag":
            raise DeniedError("ec2:CreateTags", "not authorized")

    lab.cloud.before_call = deny
    lab.boot()
    reports = lab.tick(seconds=AT_LEAST)
    assert named(lab) == set()
    assert reports[0].counts["portErrors"] == CLAIMS
    assert all(claim.node_name for claim in lab.claims)
