"""Claims that start to leave: all of a command or none, within the bound, under the lease."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import msgspec
import pytest

from adapters.aws.dynamodb.table import DynamoTable
from adapters.ports import ConflictError, TransientError
from adapters.store import CommandChange, Disrupted
from core.lifecycle.records import ClaimRecord
from tests.contract.store.stores import MINUTE, NOW, Store, counters, dynamo, going, requested
from tests.unit.lifecycle.records_for_tests import a_command

CALLERS = 12
ATTEMPTS = 40


def test_no_more_claims_leave_than_the_bound_allows(store: Store) -> None:
    """Otherwise, two concurrent functions each spend the whole budget."""
    a, b, c = requested(store, "a", "b", "c")
    first = store.stores.claims.disrupt(going(a, b), {"default": 2})
    assert [found.is_disrupting for found in first.claims] == [True, True]
    assert store.stores.claims.disrupt(going(c), {"default": 2}) == Disrupted((), None, ("default",))
    assert store.stores.claims.get("c") == c
    assert counters(store) == ({"cpu": 2000, "nodes": 1}, 2)


def test_either_all_claims_leave_or_none(store: Store) -> None:
    """Otherwise, a command of several nodes takes places that others need and does nothing with them."""
    a, b = requested(store, "a", "b")
    (other,) = requested(store, "other", pool="other")
    refused = store.stores.claims.disrupt(going(a, b, other), {"default": 1, "other": 5})
    assert refused.spent == ("default",)
    assert store.stores.claims.all() == (a, b, other)
    assert counters(store)[1] == counters(store, "other")[1] == 0


def test_claims_leave_together_with_their_command(store: Store) -> None:
    """Otherwise, a crash between the two leaves places that nobody uses, or a command that spends none."""
    (a,) = requested(store, "a")
    store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    moved = CommandChange(seen, msgspec.structs.replace(seen, replacements=("r",)))
    assert store.stores.claims.disrupt(going(a), {"default": 0}, command=moved).command is None
    assert store.stores.commands.get("x") == seen
    done = store.stores.claims.disrupt(going(a), {"default": 1}, command=moved)
    assert done.command is not None
    assert store.stores.commands.get("x") == done.command
    assert done.command.replacements == ("r",)
    (again,) = done.claims
    with pytest.raises(ConflictError):
        store.stores.claims.disrupt(going(again), {}, command=moved)


def test_changed_claims_do_not_leave(store: Store) -> None:
    """Otherwise, a claim that another function already disrupts is counted twice."""
    a, b = requested(store, "a", "b")
    store.stores.claims.change(b, msgspec.structs.replace(b, node_name="one"))
    with pytest.raises(ConflictError):
        store.stores.claims.disrupt(going(a, b), {})
    assert counters(store)[1] == 0


def test_without_the_lease_no_claim_leaves(store: Store) -> None:
    """Otherwise, two functions that check commands at once find room for their pods in the same place."""
    (a,) = requested(store, "a")
    old = store.leases.acquire("disruption", "me", now=NOW, for_=MINUTE)
    assert old is not None
    assert store.leases.acquire("disruption", "other", now=NOW + 2 * MINUTE, for_=MINUTE) is not None
    with pytest.raises(ConflictError):
        store.stores.claims.disrupt(going(a), {}, lease=old)
    assert store.stores.claims.get("a") == a


def test_a_leaving_claim_uses_no_second_place(store: Store) -> None:
    """Otherwise, a step that is repeated after a lost reply closes the budget."""
    (a,) = requested(store, "a")
    (gone,) = store.stores.claims.disrupt(going(a), {"default": 1}).claims
    (again,) = store.stores.claims.disrupt(going(gone), {"default": 1}).claims
    assert (again.version, counters(store)) == (gone.version + 1, ({}, 1))


def test_mandatory_disruptions_exceed_budgets_and_are_counted(store: Store) -> None:
    """A spot interruption ignores budgets; voluntary disruptions wait until it is over."""
    a, b, c = requested(store, "a", "b", "c")
    store.stores.claims.disrupt(going(a), {"default": 1})
    assert len(store.stores.claims.disrupt(going(b), {}).claims) == 1
    assert store.stores.claims.disrupt(going(c), {"default": 2}).spent == ("default",)


def test_places_of_deleted_and_restored_claims_are_free_again(store: Store) -> None:
    """Otherwise, budgets close for good."""
    a, b = requested(store, "a", "b")
    first, second = store.stores.claims.disrupt(going(a, b), {"default": 2}).claims
    store.stores.claims.forget(first)
    store.stores.claims.forget(first)
    assert counters(store) == ({}, 1)
    stays = msgspec.structs.replace(second, is_disrupting=False, reserved=b.reserved)
    store.stores.claims.change(second, stays)
    assert counters(store) == (b.reserved, 0)


def test_more_claims_than_a_transaction_takes_go_together(table: DynamoTable) -> None:
    """A repacking may take hundreds of nodes at once."""
    store = dynamo(table, "crowded")
    claims = requested(store, *(f"c-{n:03d}" for n in range(95)))
    store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    done = store.stores.claims.disrupt(going(*claims), {"default": 95}, command=CommandChange(seen, seen))
    assert (len(done.claims), done.spent, counters(store)) == (95, (), ({}, 95))
    assert store.stores.commands.get("x") == done.command


@pytest.mark.e2e
def test_a_budget_holds_with_any_number_of_concurrent_callers(on_dynamodb_local: DynamoTable) -> None:
    """Otherwise, functions that each validated alone exceed the budget together."""
    store = dynamo(on_dynamodb_local, "stampede")
    claims = requested(store, *(f"c-{n}" for n in range(CALLERS)))

    def ask(found: ClaimRecord) -> int:
        for _ in range(ATTEMPTS):
            with suppress(TransientError):
                return len(store.stores.claims.disrupt(going(found), {"default": 5}).claims)
        return 0

    with ThreadPoolExecutor(CALLERS) as callers:
        assert sum(callers.map(ask, claims)) == 5
    assert counters(store)[1] == 5
