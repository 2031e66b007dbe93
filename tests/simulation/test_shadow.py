"""A whole cluster beside Karpenter: everything is decided and recorded, nothing is done, and the report plays it forward."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.__main__ import main
from cli.schemas.periods import ANSWERS
from simulator.run import Result, run
from tests.shown import is_told, shown
from tests.simulation.karpenter import Karpenter, beside_karpenter
from tests.simulation.operated import operated
from tests.simulation.worlds import happened, named


class Site:
    """The world with Karpenter in it, and every call that a function makes."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.karpenter = Karpenter(world)
        self.calls: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        world.account.wire.listen(self._heard)
        world.cluster.api.on_fault_point(self._seen)

    def _heard(self, call: Any, _: Any) -> None:
        self.calls[call.name] += 1

    def _seen(self, call: str, when: str) -> None:
        if when == "before":
            self.asked[call.removeprefix("kube:").partition(" ")[0]] += 1


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result, Site]:
    """Twelve pods of one CPU each get a node of four of their own; most leave, and some come again."""
    folder = tmp_path_factory.mktemp("shadow")
    scenario = beside_karpenter(folder)
    with pytest.MonkeyPatch.context() as patch:
        sites = operated(patch, Site, lambda site: site.karpenter.start())
        result = run(scenario, ledger=folder / "ledger")
    return folder / "ledger", result, sites[0]


def test_nothing_but_the_ledger_and_the_catalogue_is_written(played: tuple[Path, Result, Site]) -> None:
    _, result, site = played
    assert set(site.asked) == {"list"}
    assert {name for name in site.calls if name.startswith(("ec2:", "dynamodb:", "iam:"))} <= {
        "ec2:DescribeInstances",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeInstanceTypeOfferings",
        "ec2:DescribeSpotPriceHistory",
    }
    assert {name.partition(":")[0] for name in site.calls} <= {
        "ec2",
        "pricing",
        "s3",
        "service-quotas",
        "sqs",
        "ssm",
    }
    assert happened(result, "instanceLaunched") == happened(result, "instanceTerminated") == []
    assert {event["function"] for event in named(result, "invocation")} == {"provision", "disrupt", "refresh_catalogue"}
    assert result.failures == ()
    assert len(site.karpenter.launched) >= 12


def test_what_would_be_done_is_recorded_and_repeats(
    played: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, _, _ = played
    assert main(["log", "--ledger", str(ledger), "-o", "json"]) == 0
    entries = json.loads(capsys.readouterr().out)["entries"]
    assert {entry["state"] for entry in entries} == {"observed"}
    assert {entry["function"] for entry in entries} == {"provision", "disrupt"}
    told = " ".join(entry["what"] for entry in entries)
    consolidated = [entry["time"] for entry in entries if "only observed: replace" in entry["what"]]
    assert min(consolidated) < "2026-11-20T00:10:00", "nothing changes, but consolidateAfter has run out"
    assert "only observed: launch" in told
    assert "only observed: remove karpenter-" in told or "only observed: replace karpenter-" in told
    assert main(["replay", "--ledger", str(ledger)]) == 0


PERIOD = ("--since", "2026-11-20T00:05:00Z", "--until", "2026-11-20T00:42:00Z")


def report(ledger: Path, capsys: pytest.CaptureFixture[str], form: str) -> str:
    capsys.readouterr()
    assert main(["shadow", "report", "--ledger", str(ledger), *PERIOD, "-o", form]) == 0
    return capsys.readouterr().out


def test_the_report_tells_both_sides(played: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str]) -> None:
    """Karpenter keeps a node for each pod here; ours is far cheaper and moves pods for it, each saving counted once."""
    document = json.loads(report(played[0], capsys, "json"))
    msgspec.convert(document, type=ANSWERS["shadow"])
    did, would, minimum = document["recorded"], document["simulated"], document["provenMinimum"]
    assert document["from"] == "2026-11-20T00:05:00Z"
    # Twelve nodes of 0.20 an hour; eight are empty after 15 minutes and gone five later; six come in the last minute.
    assert did["dollars"] == pytest.approx(0.2 * (12 * 20.5 + 4 * 16.5 + 6) / 60, rel=0.03)
    assert (did["evictions"], did["nodesLaunched"], did["waits"]["withoutPlace"]) == (0, 6, [])
    assert 60 <= did["waits"]["max"] <= 90
    assert document["bootSeconds"] == 50
    assert would["dollars"] < did["dollars"] / 3
    assert would["evictions"] == 12
    assert minimum["dollars"] < minimum["spentMeanwhile"]
    assert minimum["dollars"] / minimum["hours"] <= would["dollars"] / (37 / 60) * 1.1
    assert document["violations"] == []
    assert {found["what"] for found in document["worse"]} == {"evictions", "waits"}
    assert document["difference"]["dollars"] == pytest.approx(would["dollars"] - did["dollars"], abs=1e-5)


def test_the_page_shows_such_a_report(played: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str]) -> None:
    assert is_told(shown("beside-karpenter", "shadow report --since 7d"), report(played[0], capsys, "table"))


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_the_report_is_for_people_too(
    played: tuple[Path, Result, Site], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    text = report(played[0], capsys, form)
    assert "evictions: 12 instead of 0" in text
    assert "the median of the recorded ones" in text
    assert text.startswith("<!doctype html>") == (form == "html")
