"""`status --all`: every cluster that can be read, and those that cannot."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from cli.__main__ import main

Capture = pytest.CaptureFixture[str]


class Organisation:
    """Two clusters, and some that cannot be read."""

    def __init__(self, *failed: str) -> None:
        self.failed = tuple(SimpleNamespace(document=lambda name=name: {"cluster": name}) for name in failed)
        self.clusters: list[Any] = [
            SimpleNamespace(
                name=name,
                installation=lambda name=name: f"installation of {name}",
                where=lambda name=name: {"cluster": name, "region": f"{name}-1"},
            )
            for name in ("a", "b")
        ]

    def ask(self, question: Any) -> Any:
        return [(found, question(found)) for found in self.clusters], self.failed


@pytest.mark.parametrize("failed", [(), ("c",)])
def test_each_cluster_is_observed_and_the_answer_is_negative_if_one_is_not(
    failed: tuple[str, ...], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def observed(installation: str, arguments: Any, started: float) -> Any:
        assert arguments.all
        assert started > 0
        return SimpleNamespace(snapshot=installation, own="own", prices={"region": "r"}, set_aside=())

    def document(snapshot: str, own: str, *, cluster: str) -> dict[str, Any]:
        return {"kind": "Status", "cluster": f"{cluster} before", "of": [snapshot, own]}

    monkeypatch.setattr("cli.cluster.organisation.find_organisation", lambda _: Organisation(*failed))
    monkeypatch.setattr("cli.inputs.observe_installation", observed)
    monkeypatch.setattr("cli.answers.status.status_document", document)
    assert main(["status", "--all", "-o", "json"]) == len(failed)
    assert json.loads(capsys.readouterr().out) == {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "StatusList",
        "clusters": [
            {
                "kind": "Status",
                "cluster": name,
                "of": [f"installation of {name}", "own"],
                "prices": {"region": "r"},
                "region": f"{name}-1",
            }
            for name in ("a", "b")
        ],
        "unreadable": [{"cluster": name} for name in failed],
    }


@pytest.mark.parametrize("words", [("--cluster", "a"), ("-f", "x"), ("--context", "c"), ("-n", "shop")])
def test_all_clusters_are_not_narrowed_to_one(words: tuple[str, ...], capsys: Capture) -> None:
    assert main(["status", "--all", *words]) == 2
    assert "--all reads every cluster: leave out" in capsys.readouterr().err
