"""What the table says is due, and that `execute` does it without any message."""

from datetime import timedelta

import msgspec

from core.lifecycle.deletion import CLOSED_WITHIN
from core.lifecycle.records import Deletion
from core.manifests.wire import resources
from core.reasons.code import TerminationReason
from lambdas.controllers.sweeps.due_work import CLAIMS_A_RUN, COMMANDS_A_RUN, STALLED_AFTER, DueWork, due_work
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def test_a_run_takes_so_much_in_the_order_of_its_waiting() -> None:
    names = tuple(f"c{number}" for number in range(CLAIMS_A_RUN + 1))
    records = DueWork(names, names).records()
    assert len(records) == CLAIMS_A_RUN + COMMANDS_A_RUN
    items = [msgspec.json.decode(record["body"]) for record in records]
    assert items[0] == {"claim": "c0"}
    assert items[CLAIMS_A_RUN] == {"command": "c0"}
    assert len({record["messageId"] for record in records}) == len(records)


def test_a_claim_gets_its_node_without_any_message() -> None:
    lab = Lab()
    lab.kubernetes.put(a_node_pool(), a_pending_pod("p"))
    lab.provision()
    for _ in range(12):
        lab.work.take()  # every message is lost
        lab.clock.advance(seconds=STALLED_AFTER.total_seconds())
        lab.boot()
        due = due_work(lab.app.adapters.stores, lab.clock.now())
        lab.execute(*(msgspec.json.decode(record["body"]) for record in due.records()))
    assert lab.claim.is_settled
    assert lab.kubernetes.names(resources.NODES)


def test_a_claim_whose_instance_ec2_soon_takes_is_due_first_once_no_message_has_come_for_it() -> None:
    """A spot notice is two minutes: with a dead work queue, pods were evicted when their instance ended."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(), a_pending_pod("p"))
    lab.provision()
    now, late = lab.clock.now(), lab.claim.name
    lab.clock.advance(minutes=1)
    asked_at, ends_at = lab.clock.now(), lab.clock.now() + timedelta(minutes=2)
    for reason in (TerminationReason.SPOT_INTERRUPTED, TerminationReason.NODE_CLAIM_DELETED):
        deletion = Deletion(reason=reason, asked_at=asked_at, ends_at=ends_at)
        lab.rows.claims[reason] = msgspec.structs.replace(lab.claims[0], name=reason, deletion=deletion)
    assert now < asked_at
    stores = lab.app.adapters.stores
    assert due_work(stores, asked_at).claims == (late,)
    assert due_work(stores, asked_at + CLOSED_WITHIN).claims == (TerminationReason.SPOT_INTERRUPTED, late)


def test_work_that_waits_for_days_keeps_none_from_its_turn() -> None:
    """Sixty nodes whose pods nobody may evict are late for ever: the sixty-first claim has only lost its message."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(), a_pending_pod("p"))
    lab.provision()
    number = CLAIMS_A_RUN + 11
    for n in range(number):
        lab.rows.claims[f"c{n}"] = msgspec.structs.replace(lab.claims[0], name=f"c{n}")
    seen: set[str] = set()
    for _ in range(3):
        lab.clock.advance(minutes=1)
        seen.update(due_work(lab.app.adapters.stores, lab.clock.now()).claims[:CLAIMS_A_RUN])
    assert seen >= {f"c{n}" for n in range(number)}
