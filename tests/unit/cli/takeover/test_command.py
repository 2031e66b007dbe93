"""`adopt` and `release`: nodes of the named installation change hands with `--yes`; the exit code says what remains."""

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
from cli.takeover.environment import TakeoverEnvironment
from core import labels
from tests.fakes.lab import Lab, LabAdapters, a_pending_pod

Capture = pytest.CaptureFixture[str]
PLACE = ("--cluster", "prod", "--region", "eu-west-1", "--profile", "mine", "--stack", "s")


class Site:
    """A cluster with one node of ours, and what the user's own calls to EC2 and SSM find and change."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lab, self.switch = Lab(kill_switch_parameter="/mode"), "stop"
        self.lab.kubernetes.put(a_pending_pod("web"))
        self.lab.settle()
        monkeypatch.setattr("cli.cluster.installation.find_installation", self._find)
        monkeypatch.setattr("cli.takeover.environment.open_environment", self._open)

    def _find(self, cluster: str, **place: Any) -> Installation:
        if (cluster, place) != ("prod", {"region": "eu-west-1", "profile": "mine", "stack": "s"}):
            raise InputError(f"no installation for cluster {cluster}")
        session: Any = None
        return Installation(cluster=cluster, stack="s", settings=self.lab.settings, session=session)

    def _open(self, _: Installation) -> TakeoverEnvironment:
        calls: Any = self
        return TakeoverEnvironment(LabAdapters(self.lab), calls, calls)

    def call(self, operation: str, **given: Any) -> JsonObject:
        if operation == "GetParameter":
            return {"Parameter": {"Value": self.switch, "LastModifiedDate": self.lab.clock.now() - timedelta(hours=1)}}
        (name,), tags = given["Resources"], given["Tags"]
        (found,) = self.lab.cloud.instances([name])
        kept = {key: value for key, value in found.tags.items() if key not in {tag["Key"] for tag in tags}}
        new = {tag["Key"]: tag["Value"] for tag in tags} if operation == "CreateTags" else {}
        self.lab.cloud.put(msgspec.structs.replace(found, tags={**kept, **new}))
        return {}

    def owner(self) -> str:
        """Whose the node is, by the table and its instance."""
        (instance,) = self.lab.cloud.instances()
        assert (labels.CLAIM in instance.tags) == bool(self.lab.claims)
        return "ours" if self.lab.claims else "Karpenter's"


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def answered(capsys: Capture, *words: str) -> tuple[int, JsonObject]:
    code = main([*words, *PLACE, "-o", "json"])
    told = capsys.readouterr()
    assert told.out, told.err
    return code, json.loads(told.out)


def test_a_node_goes_to_karpenter_and_comes_back_with_yes_alone(site: Site, capsys: Capture) -> None:
    for name, before, done, owners in (
        ("release", "releasable", "released", ("ours", "Karpenter's")),
        ("adopt", "adoptable", "adopted", ("Karpenter's", "ours")),
    ):
        for more, state, owner in (((), before, owners[0]), (("--yes",), done, owners[1])):
            code, found = answered(capsys, name, *more)
            assert (code, [item["state"] for item in found["items"]], site.owner()) == (0, [state], owner), found


@pytest.mark.parametrize("name", ["adopt", "release"])
def test_what_is_in_the_way_makes_the_exit_code_negative(name: str, site: Site, capsys: Capture) -> None:
    site.switch = "run"
    code, found = answered(capsys, name, "--yes")
    assert (code, site.owner()) == (1, "ours")
    assert "pause --cluster test --everything" in found["hindrances"][0]


def test_each_form_shows_the_nodes_of_its_direction(site: Site, capsys: Capture) -> None:
    """A table says what to run next, and only the wide one has instances."""
    (claim,) = site.lab.claims
    for name in ("release", "adopt"):
        seen = {}
        for form in ("table", "wide", "name"):
            assert main([name, *PLACE, "-o", form]) == 0
            seen[form] = capsys.readouterr().out
        assert seen["name"] == f"nodeclaim/{claim.name}\n"
        assert ("INSTANCE" in seen["table"], "INSTANCE" in seen["wide"]) == (False, True)
        for form in ("table", "wide"):
            assert f"`fleetwright {name} --cluster test --yes`" in " ".join(seen[form].split())
        assert main(["release", *PLACE, "--yes"]) == 0


@pytest.mark.parametrize("name", ["adopt", "release"])
def test_another_installation_is_not_touched(name: str, site: Site) -> None:
    for number in range(1, len(PLACE), 2):
        assert main([name, *PLACE[:number], "another", *PLACE[number + 1 :], "--yes"]) == 2
    assert main([name]) == 2
    assert site.owner() == "ours"
