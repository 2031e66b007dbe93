"""Every command that reads a ledger finds it in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

import cli.cluster.installation
from cli.__main__ import main
from cli.ledger.decisions import DAYS_LISTED
from core.ledger.object_keys import decision_key

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

    monkeypatch.setattr(cli.cluster.installation, "find_installation", find)
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
    from cli.ledger import storage

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
