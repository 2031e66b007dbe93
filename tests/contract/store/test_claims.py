"""Claims in the store: written once, found, listed whole, changed by one writer at a time."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest

from adapters.aws.dynamodb.claims import SHARDS, shard_partition
from adapters.aws.dynamodb.commands import SIGNERS_MAX, DynamoProposals, DynamoTargets
from adapters.aws.dynamodb.table import DynamoTable, key
from adapters.ports import ConflictError, TransientError
from adapters.store import CLAIMS, CommandChange, Disrupted
from core.approval.proposal import ProposalVerdict
from core.lifecycle.records import ClaimRecord, Machine
from core.model.catalogue import Offering
from core.model.plan import Move, StoredDrain
from tests.builders import a_stored_target
from tests.contract.store.stores import MINUTE, NOW, Store, claim, counters, dynamo, going, noise, requested
from tests.unit.approval.test_proposal import PROPOSAL
from tests.unit.lifecycle.records_for_tests import a_command


def test_a_claim_round_trips(store: Store) -> None:
    """Otherwise, the next function reads something else than was stored."""
    (stored,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    assert store.stores.claims.get("a") == stored
    assert store.stores.claims.all() == (stored,)
    assert store.stores.claims.get("b") is None


def test_claims_are_listed_by_name(store: Store) -> None:
    store.stores.claims.request([claim(f"c-{n}") for n in (3, 1, 2)], {}, store.planner())
    assert [record.name for record in store.stores.claims.all()] == ["c-1", "c-2", "c-3"]


def test_asking_twice_stores_and_reserves_once(store: Store) -> None:
    """A reply may be lost; repeating the call must neither fail nor count twice."""
    limits = {"default": {"nodes": 1}}
    store.stores.claims.request([claim("a")], limits, store.planner())
    again = store.stores.claims.request([claim("a")], limits, store.planner())
    assert [record.name for record in again.accepted] == ["a"]


def test_the_second_of_two_writers_is_refused(store: Store) -> None:
    """Otherwise, a step taken on old facts undoes a newer one."""
    (seen,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    store.stores.claims.change(seen, msgspec.structs.replace(seen, node_name="one"))
    for write in (
        lambda: store.stores.claims.change(seen, msgspec.structs.replace(seen, node_name="two")),
        lambda: store.stores.claims.change(seen, msgspec.structs.replace(seen, reserved={})),
        lambda: store.stores.claims.forget(seen),
    ):
        with pytest.raises(ConflictError):
            write()
    stored = store.stores.claims.get("a")
    assert stored is not None
    assert stored.node_name == "one"


def test_a_claim_is_found_by_its_instance_until_it_is_deleted(store: Store) -> None:
    """Otherwise, each event of any instance of the account would read all claims."""
    unlaunched = msgspec.structs.replace(claim("a"), machine=None)
    (seen,) = store.stores.claims.request([unlaunched], {}, store.planner()).accepted
    assert store.stores.claims.of_instance("i-1") is None
    machine = Machine(instance_id="i-1", provider_id="aws:///a/i-1", offering=Offering("m5.large", "a", "spot", 1))
    launched = store.stores.claims.change(seen, msgspec.structs.replace(seen, machine=machine))
    assert store.stores.claims.of_instance("i-1") == launched
    store.stores.claims.forget(launched)
    assert store.stores.claims.of_instance("i-1") is None
    assert store.stores.claims.restore(launched) is not None
    assert store.stores.claims.of_instance("i-1") is not None
    assert store.stores.claims.indexed() == {"i-1"}
    store.stores.claims.index(launched)
    assert store.stores.claims.of_instance("i-1") is not None


def test_of_claims_that_share_a_launch_one_gets_an_instance(store: Store) -> None:
    """Two that look for a free instance at once would both run on it, and another would run for nobody."""
    unlaunched = [msgspec.structs.replace(claim(name), machine=None, shares=2) for name in ("a", "b")]
    first, other = store.stores.claims.request(unlaunched, {}, store.planner()).accepted
    machine = Machine(instance_id="i-1", provider_id="aws:///a/i-1", offering=Offering("m5.large", "a", "spot", 1))
    store.stores.claims.change(first, msgspec.structs.replace(first, machine=machine))
    with pytest.raises(ConflictError):
        store.stores.claims.change(other, msgspec.structs.replace(other, machine=machine))


def test_deleting_twice_is_allowed(store: Store) -> None:
    (seen,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    store.stores.claims.forget(seen)
    store.stores.claims.forget(seen)
    assert store.stores.claims.all() == ()


def test_everything_is_listed_however_much_there_is(table: DynamoTable) -> None:
    """DynamoDB answers a megabyte at a time; what the second page holds must not be taken for gone."""
    store = dynamo(table, "heavy")
    claims = [msgspec.structs.replace(claim(f"c-{n:02d}"), node_name=noise(50_000)) for n in range(25)]
    for record in claims:
        store.stores.claims.request([record], {}, store.planner())
    assert [record.name for record in store.stores.claims.all()] == [record.name for record in claims]


def test_a_claim_whose_row_is_lost_is_stored_again_whatever_the_limits(store: Store) -> None:
    """Otherwise, a table that lost rows forgets their share, or a full NodePool cannot restore its own nodes."""
    stored = store.stores.claims.restore(claim("a", nodes=5))
    assert stored == store.stores.claims.get("a")
    (usage,) = store.stores.claims.usage()
    assert usage.reserved == {"nodes": 5, "cpu": 2000}


def test_a_claim_that_is_there_is_not_stored_over(store: Store) -> None:
    (there,) = store.stores.claims.request([claim("a")], {}, store.planner()).accepted
    assert store.stores.claims.restore(claim("a", nodes=5)) is None
    assert store.stores.claims.get("a") == there
    (usage,) = store.stores.claims.usage()
    assert usage.reserved == there.reserved


def test_claims_are_distributed_over_several_partitions() -> None:
    """One partition of DynamoDB gives 3,000 read units a second, and 5,000 claims take as many."""
    names = [f"default-{number}-0" for number in range(5000)]
    sizes = Counter(shard_partition("c", CLAIMS, name) for name in names)
    assert len(sizes) == SHARDS
    assert max(sizes.values()) < 1.2 * len(names) / SHARDS


def test_many_claims_fit_in_several_transactions(table: DynamoTable) -> None:
    """DynamoDB takes a hundred operations at once."""
    store = dynamo(table, "many")
    claims = [claim(f"c-{n:03d}") for n in range(95)]
    requested = store.stores.claims.request(claims, {"default": {"nodes": 90}}, store.planner())
    assert (len(requested.accepted), len(requested.refused)) == (90, 5)


def test_claims_of_any_size_fit_in_several_transactions(table: DynamoTable) -> None:
    """DynamoDB takes four megabytes at once: a NodePool with long annotations could launch nothing where it has many pods."""
    store = dynamo(table, "large")
    claims = [msgspec.structs.replace(claim(f"c-{n:03d}"), node_name=noise(150_000)) for n in range(40)]
    requested = store.stores.claims.request(claims, {"default": {"nodes": 39}}, store.planner())
    assert (len(requested.accepted), len(requested.refused)) == (39, 1)


# Claims that start to leave: all of a command or none, within the bound, under the lease.


CALLERS = 12
ATTEMPTS = 40


def test_no_more_claims_leave_than_the_bound_allows(store: Store) -> None:
    """Otherwise, two concurrent functions each spend the whole budget."""
    a, b, c = requested(store, "a", "b", "c")
    first = store.stores.claims.disrupt(going(a, b), {"default": 2})
    assert [claim.is_disrupting for claim in first.claims] == [True, True]
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

    def ask(record: ClaimRecord) -> int:
        for _ in range(ATTEMPTS):
            with suppress(TransientError):
                return len(store.stores.claims.disrupt(going(record), {"default": 5}).claims)
        return 0

    with ThreadPoolExecutor(CALLERS) as callers:
        assert sum(callers.map(ask, claims)) == 5
    assert counters(store)[1] == 5


# Commands, targets and proposals: kept whole, changed from their last version only.


def test_commands_are_kept_changed_and_removed(store: Store) -> None:
    store.stores.commands.add(a_command())
    with pytest.raises(ConflictError):
        store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    moved = store.stores.commands.change(seen, msgspec.structs.replace(seen, replacements=("r",)))
    assert store.stores.commands.get("x") == moved
    with pytest.raises(ConflictError):
        store.stores.commands.change(seen, seen)
    store.stores.commands.remove(moved)
    store.stores.commands.remove(moved)
    assert store.stores.commands.all() == ()


def test_a_command_that_moves_thousands_of_pods_can_be_stored(table: DynamoTable) -> None:
    """An item may have 400 KB: else a cluster of a hundred full nodes is never consolidated."""
    store, command = dynamo(table, "moves"), a_command()
    moves = tuple(Move(f"shop/cart-{noise(5)}-{noise(3)}", f"ip-10-0-{n % 99}-1.ec2.internal") for n in range(6000))
    moving = msgspec.structs.replace(command, command=msgspec.structs.replace(command.command, moves=moves))
    store.stores.commands.add(moving)
    (seen,) = store.stores.commands.all()
    assert seen.command.moves == moves


def test_a_command_that_another_function_continued_is_not_removed(store: Store) -> None:
    """Otherwise, its nodes keep their taint and their share of the limits, and no record lists them."""
    store.stores.commands.add(a_command())
    (seen,) = store.stores.commands.all()
    moved = store.stores.commands.change(seen, msgspec.structs.replace(seen, replacements=("r",)))
    with pytest.raises(ConflictError):
        store.stores.commands.remove(seen)
    assert store.stores.commands.all() == (moved,)


def test_a_target_is_kept_until_it_is_replaced(table: DynamoTable, request: pytest.FixtureRequest) -> None:
    """Otherwise, each run plans everything again."""
    targets = DynamoTargets(table, request.node.name)
    assert targets.read() is None
    drains = tuple(StoredDrain(f"node-{number}", 10**9, 7) for number in range(300))
    target = a_stored_target(*drains, settings="s", kept_price=1, new_price=2)
    targets.write(target)
    assert targets.read() == target
    targets.write(None)
    assert targets.read() is None


def test_a_proposal_is_changed_only_from_its_last_version(table: DynamoTable, request: pytest.FixtureRequest) -> None:
    """A person's verdict and a function's look may come at the same moment; neither may undo the other."""
    proposals = DynamoProposals(table, request.node.name)
    first = proposals.add(msgspec.structs.replace(PROPOSAL, proposed_at=NOW))
    with pytest.raises(ConflictError):
        proposals.add(PROPOSAL)
    approved = proposals.change(
        first, msgspec.structs.replace(first, verdict=ProposalVerdict(is_approved=True, by="ada", at=NOW))
    )
    with pytest.raises(ConflictError):
        proposals.change(first, msgspec.structs.replace(first, announced_at=NOW))
    assert proposals.all() == (msgspec.structs.replace(approved, verdict=None),), "a row's own verdict is nobody's"


def test_a_verdict_is_read_where_iam_lets_its_writer_write(table: DynamoTable, request: pytest.FixtureRequest) -> None:
    cluster = request.node.name
    proposals = DynamoProposals(table, cluster)
    first = proposals.add(msgspec.structs.replace(PROPOSAL, proposed_at=NOW))
    yes = ProposalVerdict(is_approved=True, by="AIDAADA", at=NOW)
    # A note alone, and a verdict for other content, approve nothing.
    table.put({**key(f"{cluster}#verdicts", f"{first.id}#AIDABOSS")})
    proposals.answer(msgspec.structs.replace(first, proposed_at=NOW + timedelta(hours=1)), yes)
    assert proposals.verdict_on(first) is None
    proposals.answer(first, yes)
    assert proposals.verdict_on(first) == proposals.all()[0].verdict == yes
    items = {item["pk"]["S"] for item in table.query(f"{cluster}#verdicts#AIDAADA")}
    assert items == {f"{cluster}#verdicts#AIDAADA"}
    no = ProposalVerdict(is_approved=False, by="AIDABOB", at=NOW)
    proposals.answer(first, no)
    assert proposals.verdict_on(first) == no


@pytest.mark.parametrize("is_other", [False, True])
def test_notes_in_other_names_hide_no_rejection(
    table: DynamoTable, request: pytest.FixtureRequest, *, is_other: bool
) -> None:
    """Whoever may approve may add notes in any name: with twenty before Zoe's, her rejection was never read."""
    cluster = request.node.name
    proposals = DynamoProposals(table, cluster)
    first = proposals.add(msgspec.structs.replace(PROPOSAL, proposed_at=NOW))
    proposals.answer(first, ProposalVerdict(is_approved=True, by="AIDAADA", at=NOW))
    proposals.answer(first, ProposalVerdict(is_approved=False, by="AIDAZOE", at=NOW))
    named = "other" if is_other else first.id
    for number in range(SIGNERS_MAX):
        table.put(key(f"{cluster}#verdicts", f"{named}#AIDAM{number:02}"))
    verdict = proposals.verdict_on(first)
    assert verdict == proposals.all()[0].verdict
    assert (verdict is None) != is_other
    assert verdict is None or not verdict.is_approved
