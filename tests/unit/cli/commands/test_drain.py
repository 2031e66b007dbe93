"""`drain`: which installation, how long, and whether anything remains."""

from __future__ import annotations

import json
from datetime import timedelta

import msgspec
import pytest

from cli.__main__ import main
from core.lifecycle.records import Deletion
from core.manifests.wire import resources
from tests.unit.cli.simulated_installation import OF_PROD, SimulatedInstallation

Capture = pytest.CaptureFixture[str]


class Draining(SimulatedInstallation):
    """Its NodePool is deleted, and its one node began to drain when the test begins; no function runs on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.lab.kubernetes.drop(resources.NODE_POOLS, "default")
        self.began_at, record = self.lab.clock.now(), self.lab.claim
        deletion = Deletion(reason="NodePoolDeleted", asked_at=self.began_at)
        self.lab.rows.claims[record.name] = msgspec.structs.replace(record, deletion=deletion)

    def bound(self) -> timedelta | None:
        """How long the drain may take."""
        deletion = self.lab.claim.deletion
        return deletion.deadline - self.began_at if deletion is not None and deletion.deadline is not None else None

    def waited(self) -> timedelta:
        return self.lab.clock.now() - self.began_at


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Draining:
    return Draining(monkeypatch)


@pytest.mark.parametrize(
    ("words", "bound", "waited"),
    [
        ((), None, timedelta(0)),
        (("--grace-period", "10m"), None, timedelta(0)),
        (("--yes",), None, timedelta(hours=1)),
        (("--yes", "--grace-period", "10m", "--timeout", "5m"), timedelta(minutes=10), timedelta(minutes=5)),
        (("--yes", "--grace-period", "0s", "--timeout", "0s"), timedelta(0), timedelta(0)),
    ],
)
def test_a_drain_is_bounded_and_waited_for_as_long_as_is_asked(
    words: tuple[str, ...], bound: timedelta | None, waited: timedelta, site: Draining, capsys: Capture
) -> None:
    assert main(["drain", *OF_PROD, "--all", *words, "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["acting"], [item["state"] for item in document["items"]]) == ("--yes" in words, ["draining"])
    assert (site.bound(), site.waited()) == (bound, waited)


def test_nothing_remains_once_the_node_and_its_objects_have_gone(site: Draining, capsys: Capture) -> None:
    lab, record = site.lab, site.lab.claim
    lab.cloud.end(record.instance_id, "Client.UserInitiatedShutdown")
    lab.rows.claims.clear()
    for kind, name in ((resources.NODES, record.node_name), (resources.EC2_NODE_CLASSES, "default")):
        lab.kubernetes.drop(kind, name)
    assert main(["drain", *OF_PROD, "--all", "--yes", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["leftovers"] == []


def test_people_are_shown_what_remains(site: Draining, capsys: Capture) -> None:
    shown = {}
    for form in ("table", "wide", "name"):
        assert main(["drain", *OF_PROD, "--all", "-o", form]) == 1
        shown[form] = capsys.readouterr().out
    assert ("INSTANCE" in shown["table"], "INSTANCE" in shown["wide"]) == (False, True)
    assert f"nodeclaim/{site.lab.claim.name}" in shown["name"].splitlines()
    assert "`fleetwright drain --cluster test --all --yes`" in " ".join(shown["table"].split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--all"),
        (("--all", "--grace-period", "soon"), "--grace-period: 'soon' is not a duration"),
        (("--all", "--timeout", "-1m"), "--timeout"),
        (("--all", "--timeout", "Never"), "--timeout: 'Never' is not a duration"),
        (("--all", "--region", "another"), "no installation for cluster prod"),
    ],
)
def test_what_is_no_duration_or_not_all_is_wrong_usage(
    words: tuple[str, ...], said: str, site: Draining, capsys: Capture
) -> None:
    assert main(["drain", *OF_PROD, *words, "--yes"]) == 2
    assert said in capsys.readouterr().err
    assert (site.bound(), site.waited()) == (None, timedelta(0))
