"""A pod or a node is explained as a decision of the ledger saw it: the one that is named, or the last one about it."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

import cli.cluster.own_state
from cli.__main__ import main
from cli.errors import InputError
from cli.ledger import entries
from cli.ledger.entries import (
    DAYS_LISTED,
    PAGE,
    REACHED_BACK,
    THREADS,
    BucketLedger,
    FolderLedger,
    PastTarget,
    PeriodReader,
    explain_past,
    find,
    ledger_of_bucket,
    open_ledger,
    outcomes,
    refuse_none,
)
from cli.ledger.entries import entries as decisions_entries
from core import codec
from core.errors import InvalidInputError
from core.ledger.encoding import encode_catalogue, written_form
from core.ledger.entry import DISRUPT, PROVISION, LedgerDocuments, LedgerEntry, LedgerPart, encode_entry
from core.ledger.outcome import DecisionOutcome, OutcomeState, catalogue_digest, digest_of
from core.ledger.reading import base_key, decision_key, encode_base, outcome_key
from core.model.plan import Blocked, Command, DisruptionPlan, Move
from core.scheduling import schedule
from tests.builders import NOW as SNAPSHOT_TIME
from tests.builders import a_node_of, a_pod, a_snapshot, a_type
from tests.unit.cli.ledger.stored import MemoryLedger, an_entry, asked

# Decisions are found by cluster, time and id, and an empty answer says what there is instead.


NOW = datetime.now(UTC).replace(microsecond=0)


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


LEDGER = MemoryLedger(
    an_entry("aaaa11", ago(hours=2)),
    an_entry("aaaa22", ago(days=3)),
    an_entry("bbbb33", ago(days=60)),
    an_entry("cccc44", ago(hours=1), cluster="test"),
    objects={"bases/prod/x": b"", "decisions/prod/notes": b""},
)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({}, ["bbbb33", "aaaa22", "aaaa11", "cccc44"]),
        ({"cluster": "prod"}, ["bbbb33", "aaaa22", "aaaa11"]),
        ({"cluster": "pro"}, []),
        ({"cluster": "prod", "since": ago(days=4)}, ["aaaa22", "aaaa11"]),
        ({"cluster": "prod", "since": ago(days=3)}, ["aaaa22", "aaaa11"]),
        ({"cluster": "prod", "since": ago(days=2.9)}, ["aaaa11"]),
        ({"cluster": "prod", "since": ago(hours=2)}, ["aaaa11"]),
        ({"cluster": "prod", "since": ago(hours=1.9)}, []),
        ({"cluster": "prod", "since": ago(days=60)}, ["bbbb33", "aaaa22", "aaaa11"]),
        ({"since": ago(days=4)}, ["aaaa22", "aaaa11", "cccc44"]),
    ],
)
def test_decisions_of_a_cluster_and_a_time_are_in_its_order(arguments: dict[str, Any], found: list[str]) -> None:
    assert [key.id for key in find(LEDGER, asked(**arguments))] == found


class Listing(MemoryLedger):
    """Notes the prefixes that are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.prefixes: list[str] = []

    def keys(self, prefix: str) -> list[str]:
        self.prefixes.append(prefix)
        return []


def test_few_days_are_listed_one_by_one_and_many_at_once() -> None:
    """A request takes some thirty milliseconds, and a bucket may have years."""
    few, many, every = Listing(), Listing(), Listing()
    find(few, asked(cluster="prod", since=ago(days=1)))
    find(many, asked(cluster="prod", since=ago(days=DAYS_LISTED.days + 1)))
    find(every, asked(since=ago(days=1)))
    day = "decisions/prod/%Y/%m/%d/"
    ahead = ago(days=-1)  # the clock of a function may be ahead
    assert few.prefixes[:3] == [moment.strftime(day) for moment in (ago(days=1), NOW, ahead)]
    assert (many.prefixes, every.prefixes) == (["decisions/prod/"], ["decisions/"])


def test_an_id_may_be_cut_as_long_as_it_names_one_decision() -> None:
    assert [key.id for key in find(LEDGER, asked(), ["cccc", "aaaa2", "cccc44"])] == ["aaaa22", "cccc44"]
    exact = MemoryLedger(an_entry("aaaa", ago(hours=1)), an_entry("aaaab", ago(hours=2)))
    assert [key.id for key in find(exact, asked(), ["aaaa"])] == ["aaaa"]


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("aaaa", "2 decisions begin with 'aaaa'"),
        ("dddd", "there is no decision 'dddd'"),
        ("ccc", "'ccc' is too short to name a decision"),
    ],
)
def test_an_id_that_names_none_or_several_is_refused(wanted: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        find(LEDGER, asked(), [wanted])


@pytest.mark.parametrize(
    ("ledger", "arguments", "problem", "hint"),
    [
        (MemoryLedger(), {}, "there is no decision in the ledger", "the folder of `fleetwright simulate --ledger`"),
        (
            LEDGER,
            {"cluster": "dev"},
            "there is no decision of cluster 'dev' in the ledger",
            "it has those of prod, test",
        ),
        (
            LEDGER,
            {"cluster": "prod"},
            "there is no decision of that time in the ledger",
            f"it has those from {ago(days=60):%Y-%m-%dT%H:%M:%SZ} to {ago(hours=2):%Y-%m-%dT%H:%M:%SZ}",
        ),
        (
            LEDGER,
            {},
            "there is no decision of that time in the ledger",
            f"it has those from {ago(days=60):%Y-%m-%dT%H:%M:%SZ} to {ago(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        ),
    ],
    ids=[
        "empty-ledger",
        "other-cluster",
        "other-time-of-a-cluster",
        "other-time",
    ],  # no moment is part of a test's name
)
def test_an_empty_answer_says_what_the_ledger_has(
    ledger: MemoryLedger, arguments: dict[str, Any], problem: str, hint: str
) -> None:
    with pytest.raises(InputError) as raised:
        refuse_none([], ledger, asked(**arguments))
    assert problem in str(raised.value)
    assert hint in (raised.value.hint or "")
    refuse_none(find(LEDGER, asked()), ledger, asked(**arguments))


def test_headers_come_with_their_keys_and_outcomes_of_the_cluster_alone() -> None:
    keys = find(LEDGER, asked(cluster="prod"))
    assert [(key.id, entry.id) for key, entry in decisions_entries(LEDGER, keys)] == [(key.id, key.id) for key in keys]
    ended = DecisionOutcome(decision="aaaa11", part="x", state=OutcomeState.DONE, at=NOW)
    stored = {outcome_key(cluster, NOW, "disrupt", "d"): msgspec.json.encode([ended]) for cluster in ("prod", "test")}
    assert outcomes(MemoryLedger(objects=stored), asked(cluster="prod")) == [ended]


# Every command that reads a ledger finds it in the same way.


AT = datetime(2026, 11, 20, 5, tzinfo=UTC)
READERS = (
    ("log",),
    ("replay",),
    ("report",),
    ("what-if", "--policy", "none"),
    ("shadow", "report"),
    ("explain", "shop/cart-0", "--decision", "81c0"),
)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.Session(region_name="us-east-1")


@pytest.mark.parametrize("command", READERS)
def test_the_functions_own_ledger_is_found_by_the_name_of_the_cluster(
    command: tuple[str, ...], aws: boto3.Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name of the bucket is CloudFormation's, so nobody knows it by heart."""
    aws.client("s3").create_bucket(Bucket="kept-1")
    asked: list[dict[str, Any]] = []

    def find(cluster: str, **where: Any) -> Any:
        asked.append({"cluster": cluster, **where})
        return SimpleNamespace(session=aws, settings=SimpleNamespace(bucket_name="kept-1"))

    monkeypatch.setattr(cli.cluster.own_state, "find_installation", find)
    assert main([*command, "--cluster", "prod", "--profile", "ops", "--region", "us-east-1", "--stack", "own"]) == 2
    assert asked == [{"cluster": "prod", "profile": "ops", "region": "us-east-1", "stack": "own"}]
    said = capsys.readouterr().err
    assert "s3://kept-1: there is no decision in the ledger" in said or "there is no decision '81c0'" in said


@pytest.mark.parametrize("command", [*READERS, ("explain", "shop/cart-0", "--at", "2026-11-20T05:00:00Z")])
def test_a_question_about_the_past_is_not_answered_from_the_present(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command]) == 2
    assert "--cluster NAME or --ledger FOLDER|s3://BUCKET" in capsys.readouterr().err


def test_files_are_no_past(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They would be read and count for nothing."""
    assert main(["explain", "shop/cart-0", "--ledger", str(tmp_path), "-f", "cluster.yaml"]) == 2
    assert "leave out -f and --context" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ledger", "says"),
    [
        ("s3://no-such-bucket", "NoSuchBucket"),
        ("s3://", "names no bucket"),
    ],
)
def test_a_bucket_that_cannot_be_read_is_told_with_what_to_do(
    ledger: str, says: str, aws: boto3.Session, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "--ledger", ledger, "--region", "us-east-1"]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "hint: " in said


def test_the_named_profile_reads_a_bucket(
    aws: boto3.Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read with other credentials, another account's bucket of that name might answer."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert main(["log", "--ledger", "s3://kept-1", "--profile", "ops"]) == 2
    assert "The config profile (ops) could not be found" in capsys.readouterr().err


def a_ledger(folder: Path) -> str:
    for cluster in ("prod", "staging"):
        for at in (AT, AT + timedelta(hours=3)):
            file = folder / decision_key(cluster, at, "disrupt", "81c0aa")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"")
    return str(folder)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            ("--cluster", "prd"),
            "there is no decision of cluster 'prd' in the ledger\nhint: it has those of prod, staging",
        ),
        (("--since", "2026-11-21T00:00:00Z"), "it has those from 2026-11-20T05:00:00Z to 2026-11-20T08:00:00Z"),
        (("--cluster", "prod", "--since", "2020-01-01T00:00:00Z", "--pod", "a"), "ledger entry: is not an entry"),
    ],
)
def test_an_empty_selection_says_what_there_is(
    given: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "--ledger", a_ledger(tmp_path), *given]) == 2
    assert says in capsys.readouterr().err


def test_an_id_of_one_letter_is_too_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It said `1 decisions begin with '8'`, and did not take it."""
    assert main(["replay", "--ledger", a_ledger(tmp_path), "8"]) == 2
    assert "'8' is too short to name a decision\nhint: give 4 characters of its id" in capsys.readouterr().err


def test_a_month_and_a_beginning_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The month was reported, and the beginning passed over."""
    assert main(["report", "--ledger", a_ledger(tmp_path), "--month", "2026-11", "--from", "3d"]) == 2
    assert "leave out --from and --to" in capsys.readouterr().err


def test_many_days_are_listed_together(
    aws: boto3.Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A request for each day since 2000 would be nearly ten thousand of them."""
    from cli.ledger import entries as storage

    listed: list[str] = []
    monkeypatch.setattr(storage.BucketLedger, "keys", lambda _, prefix: listed.append(prefix) or [])
    for since in (datetime(2000, 1, 1, tzinfo=UTC), datetime.now(UTC) - DAYS_LISTED / 2):
        main(
            [
                "log",
                "--ledger",
                "s3://kept-1",
                "--cluster",
                "prod",
                "--since",
                since.isoformat(),
                "--region",
                "us-east-1",
            ]
        )
    assert listed[0] == "decisions/prod/"
    assert len(listed) < DAYS_LISTED.days


TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE, "ip-10-0-0-4.ec2.internal")
OTHER_CLAIM, OTHER = a_node_of(TYPE, "stays")
WORLD = a_snapshot(types=(TYPE,), pods=(a_pod("web"),), nodes=(NODE, OTHER), node_claims=(CLAIM, OTHER_CLAIM))
WEB = "default/web"


def stored(
    ledger: MemoryLedger, name: str, function: str, plan: bytes, *, at: datetime = SNAPSHOT_TIME, **changes: Any
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
PLAN = DisruptionPlan(
    now=SNAPSHOT_TIME, commands=(COMMAND,), blocked=(Blocked(OTHER.name, "Nominated", "a pod is expected"),)
)
WENT = LedgerPart(id="c0ffee", reason="Underutilized", nodes=(NODE.name,), pods=("default/moved",))


def disrupted(ledger: MemoryLedger, name: str = "bbbb1", **changes: Any) -> MemoryLedger:
    given = {"parts": (WENT,), "refused": ((OTHER.name, "Nominated"),), **changes}
    return stored(ledger, name, DISRUPT, codec.encode_disruption_plan(PLAN), **given)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> MemoryLedger:
    found = MemoryLedger()
    monkeypatch.setattr(entries, "opened_ledger", lambda _: found)
    return found


def explained(target: str, **changes: Any) -> entries.PastExplanation:
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
        at = SNAPSHOT_TIME + timedelta(minutes=number)
        if name.startswith("b"):
            disrupted(ledger, name, at=at)
        else:
            provisioned(ledger, name, at=at, bindings=(("default/else", OTHER.name),))
    moment = None if minutes is None else SNAPSHOT_TIME + timedelta(minutes=minutes)
    assert explained("default/moved", at=moment).entry.id == decision


def test_decisions_are_looked_through_page_by_page(ledger: MemoryLedger) -> None:
    disrupted(ledger)
    for number in range(PAGE + 1):
        provisioned(ledger, f"none-{number:03}", at=SNAPSHOT_TIME + timedelta(minutes=1 + number))
    assert explained("default/moved").entry.id == "bbbb1"


@pytest.mark.parametrize(
    ("target", "given", "problem"),
    [
        ("default/none", {}, "no decision of that time is about 'default/none'"),
        (
            "default/moved",
            {"at": SNAPSHOT_TIME - timedelta(minutes=1)},
            "no decision of that time is about 'default/moved'",
        ),
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
    assert entries._target(argparse.Namespace(target=target, namespace=namespace)) == found


# The period that a report covers: as asked for, or from the first record to the last.


START = datetime(2026, 11, 20, tzinfo=UTC)


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


PERIOD_READER_LEDGER = MemoryLedger(*(an_entry(f"entry-{hours}", at(hours)) for hours in (0, 1, 2, 3)))


@pytest.mark.parametrize(
    ("since", "until", "count", "begins", "ends"),
    [
        (None, None, 4, 0, 3),
        (None, 2, 3, 0, 2),
        (None, 2.5, 3, 0, 2.5),
        (1, None, 3, 1, 3),
        (1.5, 2.5, 1, 2, 2.5),
        (-5, 9, 4, 0, 9),
    ],
)
def test_the_period_is_the_one_asked_for_as_far_as_there_are_records(
    since: float | None, until: float | None, count: int, begins: float, ends: float
) -> None:
    given = {"since": None if since is None else at(since), "until": None if until is None else at(until)}
    period = PeriodReader(PERIOD_READER_LEDGER, asked(**given))
    assert (len(period), period.since, period.until) == (count, at(begins), at(ends))


@pytest.mark.parametrize(
    ("since", "count", "begins"),
    [(1.5, 3, 1.5), (1, 4, 1), (0, 4, 0), (None, 4, 0), (3 + REACHED_BACK / timedelta(hours=1), 1, None)],
)
def test_a_period_may_begin_with_the_snapshot_that_was_current_then(
    since: float | None, count: int, begins: float | None
) -> None:
    """An unchanged cluster is not recorded."""
    moment = None if since is None else at(since)
    period = PeriodReader(PERIOD_READER_LEDGER, asked(since=moment), reaches_back=True)
    assert (len(period), period.since) == (count, moment if begins is None else at(begins))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"since": at(4)}, "there is no decision of that time"),
        ({"until": at(-1)}, "there is no decision of that time"),
        ({}, "the ledger has several clusters: prod, test"),
    ],
)
def test_a_period_without_records_or_of_several_clusters_is_refused(given: dict[str, Any], problem: str) -> None:
    ledger = MemoryLedger(an_entry("a", at(0)), an_entry("b", at(0), cluster="test"))
    with pytest.raises(InputError, match=problem):
        PeriodReader(ledger, asked(**given))
    assert len(PeriodReader(ledger, asked(cluster="test"))) == 1


def test_decisions_come_with_their_snapshots_and_those_to_disrupt_with_their_plans() -> None:
    """A snapshot that was current when the period began counts from there."""
    ledger = provisioned(disrupted(MemoryLedger(), at=SNAPSHOT_TIME), at=SNAPSHOT_TIME + timedelta(hours=1))
    first, second = PeriodReader(ledger, asked()).decisions()
    assert (first.entry.id, first.plan, second.entry.id, second.plan) == ("bbbb1", PLAN, "aaaa1", None)
    assert first.snapshot.pods == WORLD.pods
    later = SNAPSHOT_TIME + timedelta(minutes=30)
    snapshots = list(PeriodReader(ledger, asked(since=later), reaches_back=True))
    assert [snapshot.now for snapshot in snapshots] == [later, later]


def test_a_snapshot_of_the_first_moment_stays_as_it_is() -> None:
    ledger = provisioned(MemoryLedger(), "aaaa1", at=SNAPSHOT_TIME)
    reader = PeriodReader(ledger, asked(since=SNAPSHOT_TIME))
    assert reader.within(WORLD) is WORLD
    older = reader.within(msgspec.structs.replace(WORLD, now=SNAPSHOT_TIME - timedelta(seconds=1)))
    assert older == WORLD


# A minimum is proven of a snapshot every quarter of an hour: a proof takes as long as a plan for all pods.


def test_a_minimum_is_proven_of_the_first_snapshot_and_of_those_that_come_late_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entries, "as_acting", lambda snapshot: ("acting", snapshot.now))
    monkeypatch.setattr(entries, "fleet_minimum", lambda found: found)
    bounds, world = entries._Bounds(), a_snapshot()
    minutes = (0, 1, 14.99, 15, 16, 29.99, 30.5, 45, 46)
    found = []
    for number in minutes:
        moment = SNAPSHOT_TIME + timedelta(minutes=number)
        bound = bounds.of(msgspec.structs.replace(world, now=moment))
        assert bound in (None, ("acting", moment))
        found += [number] if bound else []
    assert found == [0, 15, 30.5, 46]


# A ledger in a folder holds what is in it, whoever wrote it.


@pytest.mark.parametrize("digest", ["../../../secret", "../../../../dev/zero"])
def test_an_entry_names_no_file_outside(digest: str, tmp_path: Path) -> None:
    """The header of a decision names the document that it is kept against."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "ledger").mkdir()
    with pytest.raises(InvalidInputError, match="outside of the ledger"):
        FolderLedger(tmp_path / "ledger").get(base_key("prod", digest))


class Bucket:
    """A client of S3 with one bucket, that hands out a key a page."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get_paginator(self, name: str) -> Bucket:
        assert name == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> Iterator[dict[str, Any]]:  # noqa: N803 - as boto3 has it
        assert Bucket == "kept"
        yield {}
        yield from ({"Contents": [{"Key": key}]} for key in self.objects if key.startswith(Prefix))

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - as boto3 has it
        assert Bucket == "kept"
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("ledger/", "s3://kept"), ("copy/of/", "s3://kept/copy/of"), ("ledger/old/", "s3://kept/ledger/old")],
)
def test_keys_of_a_bucket_are_those_below_its_prefix(prefix: str, name: str) -> None:
    bucket = Bucket()
    bucket.objects = {f"{prefix}b/2": b"2", f"{prefix}b/1": b"1", f"{prefix}a/1": b"0", "elsewhere/b/1": b""}
    ledger = BucketLedger(bucket, "kept", prefix)
    assert ledger.name == name
    assert ledger.keys("b/") == ["b/1", "b/2"]
    assert ledger.keys("") == ["a/1", "b/1", "b/2"]
    assert (ledger.get("b/1"), list(ledger.get_all(["b/2", "a/1"]))) == (b"1", [b"2", b"0"])
    with pytest.raises(InvalidInputError, match=f"s3://kept/{prefix}none: cannot be read"):
        ledger.get("none")


@pytest.mark.parametrize(
    ("where", "name", "prefix"),
    [
        ("s3://kept", "s3://kept", "ledger/"),
        ("s3://kept/", "s3://kept", "ledger/"),
        ("s3://kept/copy", "s3://kept/copy", "copy/"),
        ("s3://kept/copy/of/", "s3://kept/copy/of", "copy/of/"),
    ],
)
def test_a_bucket_is_opened_with_its_prefix_and_enough_connections(
    where: str, name: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With boto3's ten connections, the other threads would wait, and warnings would be printed."""
    opened: list[tuple[str, int]] = []
    bucket = Bucket()
    bucket.objects = {f"{prefix}a": b"1"}

    class Session:
        def __init__(self, **given: str | None) -> None:
            assert given == {"profile_name": "own", "region_name": "eu-west-1"}

        def client(self, service: str, config: Any = None) -> Bucket:
            opened.append((service, config.max_pool_connections))
            return bucket

    monkeypatch.setattr("boto3.Session", Session)
    ledger = open_ledger(where, region="eu-west-1", profile="own")
    assert (ledger.name, ledger.get("a"), opened) == (name, b"1", [("s3", THREADS)])
    own = ledger_of_bucket(Session(profile_name="own", region_name="eu-west-1"), "kept")
    assert (own.name, opened[-1]) == ("s3://kept", ("s3", THREADS))


@pytest.mark.parametrize(
    ("where", "problem"),
    [("s3://", "names no bucket"), ("s3:///copy", "names no bucket"), ("none", "there is no such folder")],
)
def test_a_ledger_that_is_nowhere_is_refused(where: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        open_ledger(where)


def test_a_folder_is_listed_by_prefix_in_order(tmp_path: Path) -> None:
    for name in ("decisions/prod/b", "decisions/prod/a", "decisions/prod2/c", "bases/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    ledger = open_ledger(str(tmp_path))
    assert ledger.name == str(tmp_path)
    assert ledger.keys("decisions/prod/") == ["decisions/prod/a", "decisions/prod/b"]
    assert ledger.keys("decisions/prod/b") == ["decisions/prod/b"]
    assert ledger.keys("") == ["bases/x", "decisions/prod/a", "decisions/prod/b", "decisions/prod2/c"]
    assert list(ledger.get_all(["bases/x"])) == [b"bases/x"]
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        ledger.get("decisions/none")
