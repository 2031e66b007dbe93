"""A recording holds what AWS said and not who asked, and answers the checks as AWS did."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3
import pytest
from botocore.session import get_session
from botocore.validate import ParamValidator
from moto import mock_aws

from cli.__main__ import main
from cli.doctor.cluster import CHECKS, diagnose
from cli.doctor.network import UNKNOWN
from cli.doctor.probe import PROBES, probe
from cli.doctor.recording import RecordedAccount, _moments, measured, read_recording, redacted
from cli.errors import InputError
from tests.checked_requests import leave_requests_unchecked
from tests.unit.cli.commands.test_doctor import a_cluster, answer, concurrency

FOLDER: Final = Path(__file__).parents[3] / "cassettes"
"""Recordings of real accounts (docs/how-to/proving-run.md)."""

REGION: Final = "us-east-1"
OWNER: Final = "999988887777"

UNKNOWN_TO_MOTO: Final[dict[str, dict[str, Any]]] = {
    "service-quotas.ListServiceQuotas": {"Quotas": [{"QuotaCode": "L-1216C47A", "Value": 64.0}]},
    "service-quotas.GetAWSDefaultServiceQuota": {"Quota": {"QuotaCode": "L-34B43A08", "Value": 5.0}},
    "pricing.GetProducts": {"PriceList": ['{"terms": {"OnDemand": {}}}']},
    "eks.ListPodIdentityAssociations": {"associations": []},
    "eks.ListAddons": {"addons": []},
    "ec2.DescribeCapacityReservations": {"CapacityReservations": []},
    "ec2.DescribePlacementGroups": {"PlacementGroups": []},
}


class Recording(NamedTuple):
    """A recording of an emulated account, and the checks that were printed with it."""

    file: Path
    checks: list[dict[str, Any]]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Made once: all checks and probes take seconds."""
    file, said = tmp_path_factory.mktemp("recording") / "answers.json", io.StringIO()
    with pytest.MonkeyPatch.context() as changed, mock_aws(), redirect_stdout(said):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            changed.setenv(name, "testing")
        leave_requests_unchecked(changed)
        made = boto3.Session(region_name=REGION)
        changed.setattr(boto3, "Session", lambda **_: made)
        gone = {"Error": {"Code": "ValidationError", "Message": f"Stack of {OWNER} does not exist"}}
        answer(made, "cloudformation.DescribeStacks", gone, 400)
        answer(made, "sts.GetCallerIdentity", {"Arn": f"arn:aws:sts::{OWNER}:assumed-role/Admin/jane@corp.example"})
        line = {"timestamp": 1_000, "ingestionTime": 10_000, "message": '{"user": "jane"}'}
        answer(made, "logs.FilterLogEvents", {"events": [line, line]})
        for call, body in UNKNOWN_TO_MOTO.items():
            answer(made, call, body)
        answer(made, "ec2.RunInstances", {"Error": {"Code": "DryRunOperation", "Message": "it would"}}, 412)
        a_cluster(made, resourcesVpcConfig={"subnetIds": ["subnet-1"], "publicAccessCidrs": ["203.0.113.7/32"]})
        concurrency(made, 1000)
        assert main(["doctor", "--cluster", "prod", "--probe", "--record", str(file), "-o", "json"]) in (0, 1)
    return Recording(file, json.loads(said.getvalue())["checks"])


@pytest.mark.ci
def test_a_recording_answers_as_aws_did(recording: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    """Who has the file sees the same findings, without an account; the API server is not recorded."""
    main(["doctor", "--probe", "--from", str(recording.file), "-o", "json"])
    here = json.loads(capsys.readouterr().out)["checks"]
    assert [one["check"] for one in here] == [*CHECKS, *PROBES]
    asked_of_the_cluster = ("api-server", "definitions", "cluster-roles", "class-roles", "kubelets", "clock")
    differing = [
        (one["check"], one["state"], other["state"])
        for one, other in zip(recording.checks, here, strict=True)
        if one["state"] != other["state"] and one["check"] not in asked_of_the_cluster
    ]
    assert differing == []


@pytest.mark.ci
def test_a_recording_has_nobody_in_it(recording: Recording) -> None:
    """People send it to others: it has no account number, no session, no address, no line of the log, no cluster's name."""
    text = recording.file.read_text(encoding="utf-8")
    for private in (OWNER, "jane", "corp.example", "203.0.113.7", '"prod"', "cluster/prod", "testing"):
        assert private not in text
    assert "arn:aws:sts::123456789012:assumed-role/Admin/recorded" in text


def test_what_was_measured_is_what_a_scenario_takes(recording: Recording) -> None:
    document = read_recording(recording.file)
    assert document["aws"] == {"auditLogLag": {"p50": "9s", "p99": "9s"}}
    assert measured([]) == {}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("arn:aws:iam::999988887777:role/x", "arn:aws:iam::123456789012:role/x"),
        ("arn:aws:iam::111122223333:role/x", "arn:aws:iam::210987654321:role/x"),
        ("AKIAIOSFODNN7EXAMPLE", "AKIARECORDED"),
        ("AROAIOSFODNN7EXAMPLE:jane", "AROARECORDED"),
        ("arn:aws:iam::999988887777:user/jane", "arn:aws:iam::123456789012:user/recorded"),
        ("no: Encoded authorization failure message: abcXYZ", "no: Encoded authorization failure message: recorded"),
        ("198.51.100.4/32", "192.0.2.0/24"),
        ("198.51.100.4", "192.0.2.1"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("https://0123456789ABCDEF0123.gr7.eu-west-1.eks.amazonaws.com", "https://recorded.eks.example.com"),
        ("1234567890123", "1234567890123"),
        ("cluster/prod and production", "cluster/recorded and production"),
    ],
)
def test_what_says_who_and_where_is_replaced(said: str, kept: str) -> None:
    assert redacted({"a": [said]}, own_account=OWNER, cluster="prod") == {"a": [kept]}


def test_settings_of_functions_are_left_out_but_for_those_that_checks_read() -> None:
    told = {
        "Environment": {"Variables": {"MODE": "run", "PRICE_TERMS": "secret"}},
        "certificateAuthority": {"data": "x"},
    }
    assert redacted(told) == {"Environment": {"Variables": {"MODE": "run"}}, "certificateAuthority": {}}


def test_a_file_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for text in ("{", "[]", '{"kind": "Plan"}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError):
            read_recording(file)


def test_what_was_not_recorded_is_unknown() -> None:
    empty = RecordedAccount({"kind": "Recording", "region": REGION, "calls": []}, "fleetwright-recorded")
    found = [*diagnose(empty, datetime.now(UTC)), *probe(empty, datetime.now(UTC))]
    assert {one.state for one in found} == {UNKNOWN}


def problems_of_recording(document: dict[str, Any]) -> list[str]:
    """Each answer that the SDK's model does not admit, and each account number that was left."""
    found = []
    for call in document["calls"]:
        service, _, operation = call["call"].partition(":")
        shape = get_session().get_service_model(service).operation_model(operation).output_shape
        if "answer" in call and shape is not None:
            report = ParamValidator().validate(_moments(call["answer"]), shape)
            found += [f"{call['call']}: {error}" for error in report.generate_report().splitlines()]
    return found if redacted(document) == document else [*found, "not redacted"]


def test_recordings_of_real_aws_are_answers_of_aws(recording: Recording) -> None:
    """Those of `tests/cassettes`, and one of an emulated account, so that the rule is tried while there is none."""
    files = [recording.file, *sorted(FOLDER.glob("*.json"))]
    for file in files:
        document = read_recording(file)
        assert document["calls"]
        assert problems_of_recording(document) == []


@pytest.mark.parametrize("file", [path.name for path in sorted(FOLDER.glob("*.json"))])
def test_what_aws_answered_agrees_with_the_facts(file: str) -> None:
    """An answer that contradicts an entry of docs/engineering/aws-facts.md is a failure here."""
    account = RecordedAccount(read_recording(FOLDER / file), "fleetwright-recorded")
    wrong = [
        one for one in probe(account, account.recorded_at()) if one.check == "ec2-rules" and one.state == "problem"
    ]
    assert wrong == []
