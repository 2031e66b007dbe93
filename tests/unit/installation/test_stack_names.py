"""Names of stacks and roles: stable, allowed by AWS, and different for different clusters."""

from __future__ import annotations

import re
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from installation.stack_names import ROLE_NAME_MAX, SHARED_STACK, SLUG_MAX, role_name, stack_name, state_stack_name

CLUSTERS: Final = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}", fullmatch=True)
"""Every name that EKS allows."""


@given(CLUSTERS)
def test_a_name_is_one_that_cloudformation_and_iam_accept(cluster: str) -> None:
    stack = stack_name(cluster)
    assert re.fullmatch(r"[a-zA-Z][-a-zA-Z0-9]*", stack)
    assert len(stack) <= len(SHARED_STACK) + 1 + SLUG_MAX
    assert len(role_name(stack, "ap-southeast-1", "refresh_catalogue")) <= ROLE_NAME_MAX


@given(CLUSTERS, CLUSTERS)
def test_no_stack_of_a_cluster_is_one_of_another(one: str, other: str) -> None:
    for name in (other, one.replace("_", "-"), f"{one}-state"[:100]):
        if name != one:
            stacks = {s for c in (one, name) for s in (stack_name(c), state_stack_name(stack_name(c)))}
            assert len(stacks) == 4
            assert SHARED_STACK not in stacks


def test_names_of_installations_stay_what_they_are() -> None:
    """Another name would leave the deployed stacks behind."""
    assert stack_name("payments-eu") == "fleetwright-payments-eu"
    assert stack_name("my_shop") == "fleetwright-my-shop-6c8c0c"
    assert role_name("fleetwright-a", "us-east-1", "watch_audit_log") == "fleetwright-a-us-east-1-watch-audit-log"
