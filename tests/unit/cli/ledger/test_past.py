"""A pod or a node is explained as a decision of the ledger saw it: the one that is named, or the last one about it."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta
from typing import Any

import pytest

from cli.errors import InputError
from cli.ledger import past
from cli.ledger.past import PAGE, PastTarget, explain_past
from core import codec
from core.ledger.bases import encode_base
from core.ledger.digests import catalogue_digest, digest_of
from core.ledger.entry import DISRUPT, PROVISION, LedgerDocuments, LedgerEntry, LedgerPart, encode_entry
from core.ledger.object_keys import base_key, decision_key
from core.ledger.written_form import encode_catalogue, written_form
from core.model.plan import Blocked, Command, DisruptionPlan, Move
from core.scheduling import schedule
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type
from tests.unit.cli.ledger.stored import MemoryLedger, asked

TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE, "ip-10-0-0-4.ec2.internal")
OTHER_CLAIM, OTHER = a_node_of(TYPE, "stays")
WORLD = a_snapshot(types=(TYPE,), pods=(a_pod("web"),), nodes=(NODE, OTHER), node_claims=(CLAIM, OTHER_CLAIM))
WEB = "default/web"


def stored(
    ledger: MemoryLedger, name: str, function: str, plan: bytes, *, at: datetime = NOW, **changes: Any
) -> MemoryLedger:
    """The ledger with one more decision about `WORLD`."""
    raw, catalogue = written_form(WORLD), encode_catalogue(WORLD.catalogue)
    fixed: dict[str, Any] = {"cluster": "c", "version": "7", "is_greedy": True, "what": "did it", "reason": "Launched"}
    digests = {
        "catalogue": catalogue_digest(WORLD.catalogue),
        "base": digest_of(raw),
        "plan_digest": digest_of(plan),
    }
    entry = LedgerEntry(id=name, at=at, function=function, **fixed, **digests, **changes)
    ledger.objects |= {
        base_key("c", entry.base): encode_base(raw),
        base_key("c", digest_of(catalogue)): encode_base(catalogue),
        base_key("c", entry.catalogue): encode_base(catalogue, catalogue),
        decision_key("c", at, function, name): encode_entry(entry, LedgerDocuments(raw, plan), raw),
    }
    return ledger


def provisioned(ledger: MemoryLedger, name: str = "aaaa1", **changes: Any) -> MemoryLedger:
    return stored(ledger, name, PROVISION, codec.encode_plan(schedule(WORLD)), **changes)


COMMAND = Command(
    reason="Underutilized",
    method="single",
    nodes=(NODE.name,),
    claims=(CLAIM.name,),
    moves=(Move("default/moved", OTHER.name),),
)
PLAN = DisruptionPlan(now=NOW, commands=(COMMAND,), blocked=(Blocked(OTHER.name, "Nominated", "a pod is expected"),))
WENT = LedgerPart(id="c0ffee", reason="Underutilized", nodes=(NODE.name,), pods=("default/moved",))


def disrupted(ledger: MemoryLedger, name: str = "bbbb1", **changes: Any) -> MemoryLedger:
    given = {"parts": (WENT,), "refused": ((OTHER.name, "Nominated"),), **changes}
    return stored(ledger, name, DISRUPT, codec.encode_disruption_plan(PLAN), **given)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> MemoryLedger:
    found = MemoryLedger()
    monkeypatch.setattr(past, "opened_ledger", lambda _: found)
    return found


def explained(target: str, **changes: Any) -> past.PastExplanation:
    given = {"target": target, "namespace": None, "decision": None, "at": None, **changes}
    return explain_past(argparse.Namespace(**vars(asked()), **given))


LAUNCHED = LedgerPart(id="default-x-0", reason="Launched", pods=("default/a", "default/b"))


@pytest.mark.parametrize(
    ("target", "namespace", "outcome", "reason"),
    [
        ("default-x-0", None, "was launched for default/a, default/b", "Launched"),
        ("nodeclaim/default-x-0", None, "was launched for default/a, default/b", "Launched"),
        ("ip-10-0-0-4", None, "takes default/p, default/q", ""),
        (NODE.name, None, "takes default/p, default/q", ""),
        ("node/stays", None, "takes default/r", ""),
        (WEB, None, "needs a new node, default-x-1", ""),
        ("web", "default", "needs a new node, default-x-1", ""),
        ("pods/web", "default", "needs a new node, default-x-1", ""),
    ],
)
def test_a_decision_to_launch_knows_its_nodes_and_its_pods(
    target: str, namespace: str | None, outcome: str, reason: str, ledger: MemoryLedger
) -> None:
    second = LedgerPart(id="default-x-1", reason="Launched", pods=(WEB,))
    bindings = (("default/p", NODE.name), ("default/r", OTHER.name), ("default/q", NODE.name))
    provisioned(ledger, parts=(LAUNCHED, second), bindings=bindings)
    found = explained(target, namespace=namespace).explanation
    assert (found.outcome, found.reason, found.has_no_place) == (outcome, reason, False)
    assert found.details[-1] == "decision aaaa1 of provision, 2026-11-20T00:00:00Z, version 7: did it"


def test_a_pod_that_was_bound_is_told_of_its_node(ledger: MemoryLedger) -> None:
    provisioned(ledger, bindings=((WEB, OTHER.name),))
    assert explained(WEB).explanation.outcome == "fits on existing node stays"


@pytest.mark.parametrize(
    ("target", "subject", "outcome", "reason"),
    [
        ("ip-10-0-0-4", f"node {NODE.name}", "goes", "Underutilized"),
        (CLAIM.name, f"node {NODE.name}", "goes", "Underutilized"),
        ("node/stays", "node stays", "stays", "Nominated"),
        ("default/moved", "pod default/moved", f"leaves {NODE.name} for stays", "Underutilized"),
    ],
)
def test_a_decision_to_disrupt_knows_what_goes_and_what_moves(
    target: str, subject: str, outcome: str, reason: str, ledger: MemoryLedger
) -> None:
    disrupted(ledger)
    found = explained(target, decision="bbbb1").explanation
    assert (found.subject, found.outcome, found.reason) == (subject, outcome, reason)
    assert found.details[-1].startswith("decision bbbb1 of disrupt, ")


@pytest.mark.parametrize(("minutes", "decision"), [(None, "bbbb2"), (2, "bbbb2"), (1.5, "bbbb1"), (1, "bbbb1")])
def test_the_last_decision_about_it_up_to_a_time_is_explained(
    minutes: float | None, decision: str, ledger: MemoryLedger
) -> None:
    for number, name in enumerate(("aaaa0", "bbbb1", "bbbb2", "cccc3")):
        at = NOW + timedelta(minutes=number)
        if name.startswith("b"):
            disrupted(ledger, name, at=at)
        else:
            provisioned(ledger, name, at=at, bindings=(("default/else", OTHER.name),))
    moment = None if minutes is None else NOW + timedelta(minutes=minutes)
    assert explained("default/moved", at=moment).entry.id == decision


def test_decisions_are_looked_through_page_by_page(ledger: MemoryLedger) -> None:
    disrupted(ledger)
    for number in range(PAGE + 1):
        provisioned(ledger, f"none-{number:03}", at=NOW + timedelta(minutes=1 + number))
    assert explained("default/moved").entry.id == "bbbb1"


@pytest.mark.parametrize(
    ("target", "given", "problem"),
    [
        ("default/none", {}, "no decision of that time is about 'default/none'"),
        ("default/moved", {"at": NOW - timedelta(minutes=1)}, "no decision of that time is about 'default/moved'"),
        ("node/none", {"decision": "bbbb1"}, "decision bbbb1 saw no 'none'"),
        ("default/moved", {"decision": "cccc1"}, "there is no decision 'cccc1'"),
    ],
)
def test_what_no_decision_is_about_is_refused(
    target: str, given: dict[str, Any], problem: str, ledger: MemoryLedger
) -> None:
    disrupted(ledger)
    with pytest.raises(InputError, match=problem):
        explained(target, **given)


def test_an_empty_ledger_is_refused(ledger: MemoryLedger) -> None:
    with pytest.raises(InputError, match="there is no decision in the ledger"):
        explained("default/moved")


@pytest.mark.parametrize(
    ("target", "namespace", "named"),
    [
        ("nothing", "shop", "'shop/nothing'"),
        ("Pods/nothing", "shop", "'shop/nothing'"),
        ("pod/nothing", None, "'pod/nothing'"),
        ("nothing", None, "'nothing'"),
        ("node/nothing", "shop", "'nothing'"),
        ("deploy/nothing", "shop", "'deploy/nothing'"),
    ],
)
def test_a_name_is_looked_for_in_its_namespace(
    target: str, namespace: str | None, named: str, ledger: MemoryLedger
) -> None:
    provisioned(ledger)
    with pytest.raises(InputError) as refused:
        explained(target, namespace=namespace)
    assert refused.value.problem == f"no decision of that time is about {named}"


@pytest.mark.parametrize(
    ("target", "namespace", "found"),
    [
        ("node/n", None, PastTarget(node="n")),
        ("nodeclaim/n", "shop", PastTarget(node="n")),
        ("p", "shop", PastTarget(pod="shop/p", node="p")),
        ("pod/p", "shop", PastTarget(pod="shop/p")),
        ("shop/p", None, PastTarget(pod="shop/p", node="shop/p")),
        ("shop/p", "other", PastTarget(pod="shop/p", node="shop/p")),
        ("n", None, PastTarget(pod="n", node="n")),
    ],
)
def test_a_name_is_that_of_a_pod_or_of_a_node_or_of_either(
    target: str, namespace: str | None, found: PastTarget
) -> None:
    assert past._target(argparse.Namespace(target=target, namespace=namespace)) == found
