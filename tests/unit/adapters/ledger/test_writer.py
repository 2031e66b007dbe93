"""Decisions are stored before they are carried out; without a ledger no voluntary disruption begins."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import pytest

from adapters.ledger.writer import TRIED_AGAIN_AFTER
from adapters.ports import DeniedError, Launched
from core import labels
from core.errors import InvalidInputError
from core.ledger.encoding.compression import decompressed
from core.ledger.entry import SCHEMA_VERSION, LedgerEntry, decode_entry
from core.ledger.object_keys import read_decision_key
from core.ledger.outcome import DecisionOutcome, OutcomeState, decode_outcomes
from core.ledger.reading import LedgerReader
from core.ledger.replaying import decided_again
from core.manifests.wire import api_resources as kinds
from core.model.launch_order import LaunchOrder
from core.reasons.run import RunReason
from tests.fakes.lab import Lab, a_pending_pod

DENIED = DeniedError("s3:PutObject", "AccessDenied")


@pytest.fixture
def lab() -> Lab:
    return Lab()


def entries(lab: Lab) -> list[LedgerEntry]:
    return [decode_entry(raw) for key, raw in sorted(lab.ledger.objects.items()) if read_decision_key(key)]


def reader(lab: Lab) -> LedgerReader:
    def get(key: str) -> bytes:
        if key not in lab.ledger.objects:
            raise InvalidInputError("is not there", subject=key)
        return lab.ledger.objects[key]

    return LedgerReader(get)


def an_empty_node(lab: Lab) -> None:
    """A node without pods."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.clock.advance(minutes=1)


def test_a_launch_is_stored_before_it_is_requested(lab: Lab) -> None:
    """A crash between the two must leave a decision without an action, never an action without a decision."""
    seen: list[int] = []
    launch = lab.cloud.launch

    def watched(order: LaunchOrder) -> Launched:
        seen.append(len(entries(lab)))
        return launch(order)

    lab.cloud.launch = watched  # type: ignore[method-assign]
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert seen == [1]


def test_the_entry_names_the_code_that_decided(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release does not: builds between two releases carry one version."""
    monkeypatch.setattr("adapters.ledger.writer.CODE", "a1b2c3")
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert [entry.code for entry in entries(lab)] == ["a1b2c3"]


def test_the_stored_header_names_its_schema(lab: Lab) -> None:
    """A default is left out, and without it older releases take the entry for one of theirs, and call it damaged."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    (raw,) = (raw for key, raw in lab.ledger.objects.items() if read_decision_key(key))
    header = decompressed(raw[8 : 8 + int.from_bytes(raw[4:8], "big")])
    assert b'"schemaVersion":%d,' % SCHEMA_VERSION in header


def test_events_and_conditions_name_the_decision(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    (entry,) = entries(lab)
    (instance,) = lab.cloud.instances()
    assert lab.claim.plan.annotations[labels.DECISION] == entry.id
    assert instance.tags[labels.DECISION] == entry.id
    assert {decision.decision_id for decision in report.decisions} == {entry.id}
    assert [part.id for part in entry.parts] == [lab.claim.name]


def assert_decides_the_same_again(lab: Lab) -> None:
    (key,) = (key for key in lab.ledger.objects if read_decision_key(key))
    opened = reader(lab)
    entry, raw = opened.entry(key)
    documents = opened.documents(entry, raw)
    assert decided_again(entry, opened.snapshot(entry, documents)) == documents.plan


@pytest.mark.parametrize("bound", [{}, {"improve_iterations": 40}, {"improve_milliseconds": 0}])
def test_the_stored_entry_gives_the_same_plan(bound: dict[str, int]) -> None:
    """This holds too if a clock ended the search: its answers are stored."""
    lab = Lab(**bound)
    lab.clock.worked = lambda: timedelta(seconds=next(seconds) / 50)  # type: ignore[method-assign]
    seconds = count()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="700m") for n in range(30)))
    lab.provision()
    assert_decides_the_same_again(lab)


def test_a_search_that_ends_before_it_asks_for_the_time_gives_the_same_plan(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert [entry.elapsed for entry in entries(lab)] == [()]
    assert_decides_the_same_again(lab)


def test_the_greedy_plan_of_a_failed_search_is_the_same_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError

    lab.kubernetes.put(a_pending_pod("p"))
    with monkeypatch.context() as patched:
        patched.setattr("lambdas.controllers.provisioning.plan_decision.Planner.plan", fail)
        assert lab.provision().counts["failedImprovements"] == 1
    assert_decides_the_same_again(lab)


def test_pods_do_not_wait_for_a_ledger_that_fails(lab: Lab) -> None:
    lab.ledger.broken = DENIED
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    assert len(lab.cloud.instances()) == 1
    assert RunReason.LEDGER_NOT_WRITTEN in {decision.reason for decision in report.decisions}
    assert report.counts["ledgerFailures"] == 1


def test_no_node_goes_while_the_ledger_fails(lab: Lab) -> None:
    an_empty_node(lab)
    lab.ledger.broken = DENIED
    report = lab.disrupt()
    assert lab.app.adapters.stores.commands.all() == ()
    assert report.counts["ledgerFailures"] == 1
    lab.ledger.broken = None
    lab.disrupt()
    assert lab.app.adapters.stores.commands.all() == ()  # it is not written in every run
    lab.clock.advance(seconds=TRIED_AGAIN_AFTER.total_seconds())
    lab.disrupt()
    (command,) = lab.app.adapters.stores.commands.all()
    assert command.decision == entries(lab)[-1].id


def test_an_unchanged_refusal_is_stored_once(lab: Lab) -> None:
    """A pod that cannot be placed is planned again each minute."""
    lab.kubernetes.put(a_pending_pod("p", cpu="900"))
    for _ in range(12):
        lab.provision()
        lab.clock.advance(minutes=1)
    assert len(entries(lab)) == 1
    lab.kubernetes.put(a_pending_pod("q", cpu="900"))
    lab.provision()
    assert len(entries(lab)) == 2


def test_a_new_sandbox_uses_the_bases_of_the_last(lab: Lab) -> None:
    """A whole snapshot at each cold start would be most of the ledger."""
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    before = {key for key in lab.ledger.objects if key.startswith("bases/")}
    lab.restart()
    lab.clock.advance(minutes=1)
    lab.kubernetes.put(a_pending_pod("q"))
    lab.provision()
    assert len(entries(lab)) == 2
    assert {key for key in lab.ledger.objects if key.startswith("bases/")} == before


def test_bases_are_written_again_before_they_expire(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    before = dict(lab.ledger.objects)
    lab.clock.advance(hours=25)
    lab.kubernetes.put(a_pending_pod("q"))
    lab.provision()
    after = entries(lab)[-1]
    assert after.base not in {entry.base for entry in entries(lab)[:-1]}
    assert any(key.endswith(after.base) for key in lab.ledger.objects.keys() - before.keys())


def test_outcomes_of_runs_without_a_ledger_are_not_stored(lab: Lab) -> None:
    outcome = DecisionOutcome(decision="", part="x", state=OutcomeState.DONE, at=lab.clock.now())
    lab.app.adapters.ledger.record_outcomes("execute", [outcome])
    assert lab.ledger.objects == {}


def test_the_outcome_of_a_launch_is_stored(lab: Lab) -> None:
    lab.kubernetes.put(a_pending_pod("p"))
    report = lab.provision()
    lab.app.adapters.ledger.record_outcomes("provision", report.outcomes)
    (raw,) = (raw for key, raw in lab.ledger.objects.items() if key.startswith("outcomes/"))
    told, came = decode_outcomes(raw)
    assert (told.decision, told.part, told.state) == (entries(lab)[0].id, lab.claim.name, OutcomeState.DONE)
    assert came.instance is not None
    assert (came.instance.instance, came.instance.ended_at) == (lab.claim.instance_id, None)
