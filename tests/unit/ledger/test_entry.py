"""Entries of the ledger: a header that is read alone, and the documents to repeat the decision."""

from __future__ import annotations

import itertools
import json
from datetime import timedelta
from itertools import count
from typing import Any

import msgspec
import pytest

from core import codec
from core.errors import InvalidInputError
from core.ledger.compression import decompressed
from core.ledger.entry import (
    DISRUPT,
    PROVISION,
    SCHEMA_VERSION,
    LedgerDocuments,
    LedgerEntry,
    LedgerPart,
    RecordedTime,
    and_groups,
    by_decision,
    command_words,
    concerns,
    decode_documents,
    decode_entry,
    encode_entry,
    log_entry,
    observed,
    of_disruption,
    of_provisioning,
    recorded_clock,
    replayed_clock,
)
from core.ledger.outcome import DecisionOutcome, OutcomeState, approval_part, decode_outcomes, encode_outcomes
from core.model.plan import Blocked, Command, DisruptionPlan, Move, ObjectRef, PlannedClaim, WaitingPod
from core.reasons.code import ClaimReason
from core.reasons.runs import GroupFate, GroupLeaves
from core.scheduling import schedule
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type

EMPTY = {"catalogue": "c", "base": "", "plan_digest": "p", "what": "nothing to do", "reason": ""}
DOCUMENTS = LedgerDocuments(snapshot=b"snapshot" * 40, plan=b"plan")


def an_entry() -> LedgerEntry:
    return LedgerEntry(id="i", at=NOW, cluster="prod", function="provision", version="1.0.0", **EMPTY)


def test_the_header_is_read_alone_and_the_documents_with_their_base() -> None:
    entry = an_entry()
    raw = encode_entry(entry, DOCUMENTS, b"base")
    assert (decode_entry(raw), decode_documents(raw, b"base")) == (entry, DOCUMENTS)


def test_a_newer_schema_is_refused_by_name() -> None:
    """Fields that this release does not know might have decided."""
    newer: LedgerEntry = msgspec.structs.replace(an_entry(), schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(InvalidInputError, match="newer release"):
        decode_entry(encode_entry(newer, DOCUMENTS, b""))


def test_a_header_without_a_schema_is_of_release_1() -> None:
    """Release 1 left the default out."""
    assert an_entry().schema_version == 1
    assert decode_entry(encode_entry(an_entry(), DOCUMENTS, b"")).schema_version == 1


def test_a_part_of_an_entry_is_refused() -> None:
    """Of any length, and in words that say so: what is cut off within the header is no damaged frame."""
    raw = encode_entry(an_entry(), DOCUMENTS, b"")
    end = end_of_header(raw)
    for length in range(end):
        with pytest.raises(InvalidInputError, match="only a part of one"):
            decode_entry(raw[:length])
    assert decode_entry(raw[:end]) == an_entry()
    with pytest.raises(InvalidInputError, match="cannot be decompressed"):
        decode_documents(raw[:-1], b"")


def test_what_is_no_entry_is_refused_in_the_same_words() -> None:
    raw = encode_entry(an_entry(), DOCUMENTS, b"")
    with pytest.raises(InvalidInputError, match="is not an entry of a ledger"):
        decode_entry(b"X" + raw[1:])


def test_a_header_has_only_what_differs_from_the_defaults() -> None:
    """A busy cluster writes a thousand entries a day; readers of older releases know no other form."""
    raw = encode_entry(an_entry(), DOCUMENTS, b"")
    assert json.loads(decompressed(raw[8 : end_of_header(raw)])) == {
        "id": "i",
        "at": NOW.isoformat().replace("+00:00", "Z"),
        "cluster": "prod",
        "function": "provision",
        "version": "1.0.0",
        "catalogue": "c",
        "base": "",
        "planDigest": "p",
        "what": "nothing to do",
        "reason": "",
    }


def end_of_header(raw: bytes) -> int:
    """Four bytes of a mark, four of the header's length, the header."""
    return 8 + int.from_bytes(raw[4:8], "big")


def test_an_entry_of_this_releases_schema_is_read() -> None:
    """The number is part of every stored entry: raised without need, older releases refuse what they could read."""
    assert SCHEMA_VERSION == 2
    entry = msgspec.structs.replace(an_entry(), schema_version=SCHEMA_VERSION)
    assert decode_entry(encode_entry(entry, DOCUMENTS, b"")) == entry


def test_an_entry_adds_to_the_bill_what_its_parts_do() -> None:
    parts = tuple(LedgerPart(id=str(n), reason="Launched", hourly=hourly) for n, hourly in enumerate((7, -2, 0)))
    assert msgspec.structs.replace(an_entry(), parts=parts).hourly == 5
    assert an_entry().hourly == 0


# The log counts each saving once, and only if it was realized.


CLAIM = PlannedClaim(
    name="default-1",
    node_pool="default",
    node_class=ObjectRef("", "", "default"),
    instance_types=("m5.large", "m5.xlarge"),
    pods=("shop/a", "shop/b"),
    price=100,
)
COMMAND = Command(
    reason="Underutilized", method="single", nodes=("n1",), claims=("c1",), moves=(Move("shop/a", "n2"),), savings=30
)


def entry(function: str, summary: Any) -> LedgerEntry:
    return LedgerEntry(
        id="7f3a",
        at=NOW,
        cluster="c",
        function=function,
        version="1",
        catalogue="",
        base="",
        plan_digest="",
        what=summary.what,
        reason=summary.reason,
        parts=summary.parts,
        bindings=summary.bindings,
        refused=summary.refused,
    )


def disruption(*begun: tuple[str, Command]) -> LedgerEntry:
    plan = DisruptionPlan(now=NOW, commands=(COMMAND,), blocked=(Blocked("n9", "Budget", "…"),))
    return entry(DISRUPT, of_disruption(plan, begun))


def ended(part: str, state: OutcomeState, reason: str = "", *, after: int = 0) -> DecisionOutcome:
    at = NOW + timedelta(seconds=after)
    return DecisionOutcome(decision="7f3a", part=part, state=state, at=at, reason=reason)


def test_a_launch_shows_its_pods_and_its_cost() -> None:
    line = log_entry(entry(PROVISION, of_provisioning([CLAIM], [("shop/c", "n3")], [("shop/d", "LimitReached")])), ())
    assert line.what == "launch 1 node (1 x m5.large) for 2 pods; 1 pod on nodes that exist; 1 pod without a place"
    assert (line.reason, line.hourly, line.moves) == ("Launched", 100, 0)
    assert line.objects == ("NodeClaim/default-1", "Node/n3", "Pod/shop/a", "Pod/shop/b", "Pod/shop/c", "Pod/shop/d")


def test_a_command_that_waits_for_its_turn_saves_nothing_yet() -> None:
    """The next run finds it again: counted in each, one saving is reported many times."""
    assert log_entry(disruption(), ()).hourly == 0
    assert log_entry(disruption(), ()).reason == "Budget"
    assert log_entry(disruption(("k1", COMMAND)), ()).hourly == -30


def test_commands_without_effect_count_nothing() -> None:
    decided = disruption(("k1", COMMAND), ("k2", COMMAND))
    given_up = ended("k1", OutcomeState.ABANDONED, "NodesChanged")
    half = log_entry(decided, [given_up, ended("k2", OutcomeState.DONE)])
    assert (half.hourly, half.moves, half.state) == (-30, 1, "done in part: NodesChanged")
    none = log_entry(decided, [given_up, ended("k2", OutcomeState.ABANDONED, "NodesChanged")])
    assert (none.hourly, none.moves, none.state) == (0, 0, "came to nothing: NodesChanged")


def test_a_launch_that_is_refused_and_then_made_counts() -> None:
    """The last outcome counts: `execute` tries a claim again."""
    told = [ended("default-1", OutcomeState.DONE, after=9), ended("default-1", OutcomeState.REFUSED, "X", after=1)]
    line = log_entry(entry(PROVISION, of_provisioning([CLAIM], (), ())), by_decision(told)["7f3a"])
    assert (line.hourly, line.state) == (100, "done")


def test_a_command_without_an_outcome_is_in_progress() -> None:
    assert log_entry(disruption(("k1", COMMAND)), ()).state == "under way"


def test_a_decision_is_found_by_its_pods_and_nodes() -> None:
    line = log_entry(disruption(("k1", COMMAND)), ())
    assert concerns(line, pod="shop/a")
    assert concerns(line, node="n1")
    assert concerns(line, node="n9")
    assert not concerns(line, pod="shop/zzz")
    assert not concerns(line, node="n2-other")
    launch = log_entry(entry(PROVISION, of_provisioning([CLAIM], (), ())), ())
    assert concerns(launch, node="default-1")


def test_an_empty_decision_is_shown_as_such() -> None:
    assert of_disruption(DisruptionPlan(now=NOW), ()).reason == "NothingToDo"
    assert of_provisioning((), (), ()).what == "nothing to do"
    waiting = WaitingPod("shop/job", NOW, NOW, takes_spot=True, at_once=100_000_000, cost=40_000_000)
    assert of_provisioning((), (), (), [waiting]).what == "1 pod may wait: $0.0600 an hour less than at once"


def test_outcomes_round_trip() -> None:
    told = [ended("k1", OutcomeState.ABANDONED, "Budget")]
    assert decode_outcomes(encode_outcomes(told)) == told


LATEST = (
    ("none", None),
    ("done", (OutcomeState.DONE, "")),
    ("abandoned", (OutcomeState.ABANDONED, "Budget")),
    ("refused", (OutcomeState.REFUSED, "ICE")),
)


@pytest.mark.parametrize("function", [PROVISION, DISRUPT])
@pytest.mark.parametrize("is_observed", [False, True])
def test_the_line_of_every_pair_of_parts(function: str, is_observed: bool) -> None:
    """Two parts, each started or waiting for approval, approved or not, with each outcome, by a statement in other words."""
    kinds = [(waits, approved, latest) for waits in (False, True) for approved in (False, True) for latest in LATEST]
    for pair in itertools.product(kinds, repeat=2):
        parts = [
            LedgerPart(id=f"k{n}", reason="R", pods=("shop/a",) * n, hourly=-(10**n), waits="Approval" if waits else "")
            for n, (waits, _, _) in enumerate(pair, 1)
        ]
        told = [ended(f"k{n}", *latest) for n, (_, _, (_, latest)) in enumerate(pair, 1) if latest is not None]
        told += [
            ended(approval_part(f"k{n}"), OutcomeState.DONE) for n, (_, approved, _) in enumerate(pair, 1) if approved
        ]
        decided = LedgerEntry(
            id="7f3a", at=NOW, cluster="c", function=function, version="1", catalogue="", base="", plan_digest="",
            what="", reason="", parts=tuple(parts), is_observed=is_observed,
        )  # fmt: skip
        line = log_entry(decided, told)
        waiting = [waits and not approved and name == "none" for waits, approved, (name, _) in pair]
        lost = [name in ("abandoned", "refused") for _, _, (name, _) in pair]
        counts = [not is_observed and not w and not gone for w, gone in zip(waiting, lost, strict=True)]
        assert line.hourly == -10 * counts[0] - 100 * counts[1]
        assert line.moves == (counts[0] + 2 * counts[1] if function == DISRUPT else 0)
        why = ", ".join(sorted({latest[1] for _, _, (name, latest) in pair if latest and name != "done"}))
        if is_observed:
            assert line.state == "observed"
        elif all(lost):
            assert line.state == f"came to nothing: {why}"
        elif any(waiting):
            assert line.state == "waits for approval"
        elif any(latest is None for _, _, (_, latest) in pair):
            assert line.state == ("under way" if function == DISRUPT else "decided")
        else:
            assert line.state == (f"done in part: {why}" if any(lost) else "done")


def test_outcomes_are_kept_by_decision_in_order_of_time() -> None:
    first, last = ended("k1", OutcomeState.REFUSED, "X", after=1), ended("k1", OutcomeState.DONE, after=2)
    other = msgspec.structs.replace(first, decision="9999")
    assert by_decision([last, other, first]) == {"7f3a": [first, last], "9999": [other]}


def test_a_decision_is_of_a_pod_and_a_node_only_if_both_are() -> None:
    line = log_entry(disruption(("k1", COMMAND)), ())
    for pod, is_pods in (("shop/a", True), ("shop/z", False), ("", True)):
        for node, is_nodes in (("n1", True), ("n2", False), ("", True)):
            assert concerns(line, pod=pod, node=node) == (is_pods and is_nodes), (pod, node)


def test_a_node_is_named_by_itself_alone() -> None:
    """A pod or a NodeClaim of the name of a node is not that node."""
    named = msgspec.structs.replace(CLAIM, name="other", pods=("n7/a",))
    line = log_entry(entry(PROVISION, of_provisioning([named], [("n8", "n9")], ())), ())
    assert line.objects == ("NodeClaim/other", "Node/n9", "Pod/n7/a", "Pod/n8")
    assert [concerns(line, node=name) for name in ("other", "n9", "n8", "Pod/n8", "Node/n9")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_command_is_no_node_claim() -> None:
    line = log_entry(disruption(("k1", COMMAND)), ())
    assert line.objects == ("Command/k1", "Node/n1", "Node/n9", "Pod/shop/a")
    assert not concerns(line, node="k1")


def test_a_decision_without_parts_is_decided() -> None:
    assert log_entry(entry(PROVISION, of_provisioning((), (), ())), ()).state == "decided"


# A search under a clock is replayed with the clock's stored answers.


def test_a_search_that_time_ended_is_replayed() -> None:
    """Otherwise, replay calls every decision of a slow minute different."""
    types = tuple(
        a_type(f"m5.{n}", cpu=str(n), memory=f"{4 * n}Gi", price=0.05 * n + 0.003 * (n % 3)) for n in (2, 3, 5, 8)
    )
    pods = tuple(a_pod(f"p{n}", cpu=f"{600 + 37 * (n % 11)}m") for n in range(60))
    snapshot = a_snapshot(pods=pods, node_pools=(a_pool(),), types=types)
    for speed in (3, 17, 90):
        ticks = count()
        clock = RecordedTime(lambda ticks=ticks, speed=speed: next(ticks) / speed)  # type: ignore[misc]
        plan = codec.encode_plan(schedule(snapshot, clock))
        assert clock.elapsed
        assert codec.encode_plan(schedule(snapshot, replayed_clock(clock.elapsed))) == plan


def test_after_the_last_answer_time_is_over() -> None:
    clock = replayed_clock([0, 250])
    assert [clock(), clock(), clock(), clock()] == [0.0, 0.25, 1.0, 1.0]


def test_a_reading_is_a_whole_number_of_thousandths_and_what_the_search_gets() -> None:
    """A search that got more digits than are stored could end elsewhere when it is replayed."""
    readings = iter((0.0, 0.2507, 0.9999))
    clock = RecordedTime(lambda: next(readings))
    assert [clock(), clock(), clock()] == [0.0, 0.25, 0.999]
    assert clock.elapsed == [0, 250, 999]


@pytest.mark.parametrize(
    ("is_greedy", "bound", "elapsed", "answers"),
    [
        (True, None, (250,), None),
        (False, 3, (), None),
        (False, 3, (250,), [0.25, 1.0]),
        (False, None, (), [1.0, 1.0]),
        (False, None, (250,), [0.25, 1.0]),
    ],
)
def test_a_search_is_repeated_under_the_clock_that_bounded_it(
    is_greedy: bool, bound: int | None, elapsed: tuple[int, ...], answers: list[float] | None
) -> None:
    """None bounded a greedy plan, or a search that ended by its steps; one that time ended at once gets no time again."""
    header = {
        "cluster": "c",
        "function": "provision",
        "version": "1",
        "catalogue": "d",
        "base": "b",
        "plan_digest": "p",
    }
    entry = LedgerEntry(
        id="i", at=NOW, what="", reason="", is_greedy=is_greedy, improve_iterations=bound, elapsed=elapsed, **header
    )
    clock = recorded_clock(entry)
    assert (None if clock is None else [clock(), clock()]) == answers


# A decision in one sentence.


GOES = Command(reason="Empty", method="emptiness", nodes=("a", "b"), claims=("ca", "cb"), savings=5)


@pytest.mark.parametrize(
    ("bindings", "refused", "what", "reason"),
    [
        ((), (), "nothing to do", ""),
        ((("shop/a", "n"),), (), "1 pod", ClaimReason.FITS_EXISTING),
        ((("shop/a", "n"),), (("shop/b", "NoOffering"), ("shop/c", "LimitReached")), "2 pods", "LimitReached"),
    ],
)
def test_a_plan_without_launches_says_what_becomes_of_its_pods(
    bindings: tuple[tuple[str, str], ...], refused: tuple[tuple[str, str], ...], what: str, reason: str
) -> None:
    found = of_provisioning((), bindings, refused)
    assert (what in found.what, found.reason) == (True, reason)
    assert (found.bindings, found.refused) == (bindings, refused)


def test_commands_that_wait_are_proposed_and_save_nothing_yet() -> None:
    found = of_disruption(DisruptionPlan(now=NOW), [("one", GOES)], [("two", GOES, "more than ten nodes")])
    assert found.what == "remove a, b; propose to remove a, b"
    assert [(part.id, part.hourly, part.waits) for part in found.parts] == [
        ("one", -5, ""),
        ("two", -5, "more than ten nodes"),
    ]
    assert observed(found).what == "only observed: remove a, b; propose to remove a, b"


def test_nodes_that_stay_have_their_most_common_reason() -> None:
    plan = DisruptionPlan(
        now=NOW,
        blocked=tuple(Blocked(name, why, "") for name, why in (("a", "Y"), ("b", "X"), ("c", "X"))),
    )
    found = of_disruption(plan, [])
    assert (found.what, found.reason) == ("3 nodes stay", "X")


def test_a_command_without_replacements_removes() -> None:
    assert command_words(GOES) == "remove a, b"


def test_a_command_names_the_groups_of_its_pods() -> None:
    """A training job's owner reads events; those of a large node name a few groups and how many more there are."""
    groups = tuple(GroupLeaves(f"ml/{name}", GroupFate.LOSES_THEM, 1, 2) for name in "abcdefg")
    decided = of_disruption(
        DisruptionPlan(now=NOW), [("1", msgspec.structs.replace(GOES, groups=groups[:1])), ("2", GOES)]
    )
    assert decided.what == (
        "remove a, b; remove a, b. Group ml/a (2 members, 1 leaves): it loses them, and mostly starts again as a whole"
    )
    long = and_groups("remove a", groups)
    assert ("ml/e" in long, "ml/f" in long, long.endswith(". 2 more groups have members there")) == (True, False, True)
    assert and_groups("remove a", groups[:6]).endswith(". 1 more group has members there")
