"""Commands, targets and proposals: kept whole, changed from their last version only."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.aws.dynamodb.commands import DynamoProposals, DynamoTargets
from adapters.aws.dynamodb.table import DynamoTable, key
from adapters.ports import ConflictError
from core.approval.proposal import ProposalVerdict
from core.model.plan import Move, StoredDrain
from tests.builders import a_stored_target
from tests.contract.store.stores import NOW, Store, dynamo, noise
from tests.fakes.store import MemoryTargets, Rows
from tests.unit.approval.test_proposal import PROPOSAL
from tests.unit.lifecycle.records_for_tests import a_command


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
    for targets in (DynamoTargets(table, request.node.name), MemoryTargets(Rows())):
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
