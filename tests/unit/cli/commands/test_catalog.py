"""A region's catalogue written to a file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from adapters.aws.market import AwsMarket
from cli.__main__ import main
from cli.commands import catalog
from tests.integration.ec2.test_market import Clock, Region

POD = """
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{name: c, image: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: d}, requirements: []}}}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def region(monkeypatch: pytest.MonkeyPatch) -> Region:
    found = Region()
    service: Any = found
    monkeypatch.setattr(catalog, "market_of", lambda name, _: AwsMarket(service, service, region=name, clock=Clock()))
    return found


@pytest.mark.parametrize("name", ["eu.json", "eu.json.gz"])
def test_a_fetched_catalogue_can_be_planned_with(name: str, region: Region, tmp_path: Path, capsys: Capture) -> None:
    """Prices of us-east-1 are wrong for most regions."""
    target = tmp_path / name
    assert main(["catalog", "fetch", "--region", "eu-west-1", "--to", str(target)]) == 0
    assert "3 instance types of eu-west-1, prices of 2026-" in capsys.readouterr().err
    raw = target.read_bytes()
    document = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    assert document["region"] == "eu-west-1"
    (tmp_path / "a.yaml").write_text(POD)
    assert main(["plan", "-f", str(tmp_path / "a.yaml"), "--catalog", str(target), "-o", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["cost"]["hourly"], plan["prices"]) == (
        0.031,
        {"source": name, "region": "eu-west-1", "date": document["date"]},
    )


def test_a_fetched_catalogue_is_sized_by_the_functions_settings(
    region: Region, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With custom networking, a plan by it would put more pods on a node than have addresses."""

    def pods() -> dict[str, int]:
        assert main(["catalog", "fetch"]) == 0
        types = json.loads(capsys.readouterr().out)["instanceTypes"]
        return {one["name"]: int(one["capacity"]["pods"]) for one in types}

    usual = pods()
    monkeypatch.setenv("RESERVED_ENIS", "1")
    reserved = pods()
    assert reserved.keys() == usual.keys()
    assert all(reserved[name] < usual[name] for name in usual)


def test_prices_in_another_currency_are_said_to_be(region: Region, tmp_path: Path, capsys: Capture) -> None:
    """Answers show every amount as dollars."""
    assert main(["catalog", "fetch", "--region", "cn-north-1", "--to", str(tmp_path / "catalog.json")]) == 0
    assert " in yuan, which answers show as $\n" in capsys.readouterr().err
    assert json.loads((tmp_path / "catalog.json").read_text())["region"] == "cn-north-1"


def test_prices_that_cannot_be_read_are_those_of_the_shipped_list_with_a_warning(
    region: Region, capsys: Capture
) -> None:
    """A file of old prices that looks like today's misleads every plan."""
    region.broken = {"GetProducts"}
    assert main(["catalog", "fetch"]) == 0
    said = capsys.readouterr().err
    assert "GetProducts" in said
    assert "they are the list's of 2026-07-20, and estimated from its size for a type that it lacks" in said
    assert "spot" not in said
    region.broken = {"DescribeSpotPriceHistory"}
    assert main(["catalog", "fetch"]) == 0
    captured = capsys.readouterr()
    assert "on-demand prices stand in for them" in captured.err
    assert len(json.loads(captured.out)["instanceTypes"]) == 3
