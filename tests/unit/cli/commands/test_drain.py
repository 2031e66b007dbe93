"""`drain`: which installation, how long, and whether anything remains."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import JsonObject
from cli.__main__ import main
from cli.cluster.installation import Installation
from cli.errors import InputError
from cli.removal.owned_resources import OwnedResources
from core.lifecycle.records import Deletion
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, LabAdapters, a_pending_pod

Capture = pytest.CaptureFixture[str]
CLUSTER = ("drain", "--cluster", "prod")
PLACE = ("--region", "eu-west-1", "--profile", "mine", "--stack", "s")


class Site:
    """A cluster whose NodePool is deleted, and whose one node began to drain when the test begins; no function runs on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab = Lab()
        self.lab.kubernetes.put(a_pending_pod("web"))
        self.lab.settle()
        self.lab.kubernetes.drop(kinds.NODE_POOLS, "default")
        self.began_at, record = self.lab.clock.now(), self.lab.claim
        deletion = Deletion(reason="NodePoolDeleted", asked_at=self.began_at)
        self.lab.rows.claims[record.name] = msgspec.structs.replace(record, deletion=deletion)
        monkeypatch.setattr("cli.cluster.installation.find_installation", self._find)
        monkeypatch.setattr("cli.removal.owned_resources.open_owned_resources", self._open)

    def _find(self, cluster: str, **place: Any) -> Installation:
        if (cluster, place) != ("prod", {"region": "eu-west-1", "profile": "mine", "stack": "s"}):
            raise InputError(f"no installation for cluster {cluster}")
        session: Any = None
        return Installation(cluster=cluster, stack="s", settings=self.lab.settings, session=session)

    def _open(self, _: Installation) -> OwnedResources:
        account: Any = self
        return OwnedResources(LabAdapters(self.lab), account, account)

    def items(self, operation: str, field: str, **given: Any) -> list[JsonObject]:
        """No launch templates."""
        return []

    def call(self, operation: str, **given: Any) -> JsonObject:
        """No instance profiles."""
        return {"InstanceProfiles": []}

    def bound(self) -> timedelta | None:
        """How long the drain may take."""
        deletion = self.lab.claim.deletion
        return deletion.deadline - self.began_at if deletion is not None and deletion.deadline is not None else None

    def waited(self) -> timedelta:
        return self.lab.clock.now() - self.began_at


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


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
    words: tuple[str, ...], bound: timedelta | None, waited: timedelta, site: Site, capsys: Capture
) -> None:
    assert main([*CLUSTER, "--all", *PLACE, *words, "-o", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["acting"], [item["state"] for item in document["items"]]) == ("--yes" in words, ["draining"])
    assert (site.bound(), site.waited()) == (bound, waited)


def test_nothing_remains_once_the_node_and_its_objects_have_gone(site: Site, capsys: Capture) -> None:
    lab, record = site.lab, site.lab.claim
    lab.cloud.end(record.instance_id, "Client.UserInitiatedShutdown")
    lab.rows.claims.clear()
    for kind, name in ((kinds.NODES, record.node_name), (kinds.EC2_NODE_CLASSES, "default")):
        lab.kubernetes.drop(kind, name)
    assert main([*CLUSTER, "--all", *PLACE, "--yes", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["leftovers"] == []


def test_people_are_shown_what_remains(site: Site, capsys: Capture) -> None:
    shown = {}
    for form in ("table", "wide", "name"):
        assert main([*CLUSTER, "--all", *PLACE, "-o", form]) == 1
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
    words: tuple[str, ...], said: str, site: Site, capsys: Capture
) -> None:
    assert main([*CLUSTER, *PLACE, *words, "--yes"]) == 2
    assert said in capsys.readouterr().err
    assert (site.bound(), site.waited()) == (None, timedelta(0))
