"""`pause` and `resume` set the switches, never loosen a stricter one, and say what each setting stops."""

from __future__ import annotations

import argparse
import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

import cli.cluster.own_state
from cli.__main__ import main
from cli.cluster import organisation
from cli.cluster.own_state import KillSwitches, switch_of
from cli.commands.pause import NOTICED, switch_table, switch_to
from cli.errors import InputError
from core.brakes import STOPS, BrakeKind, Mode
from tests.shown import is_told, shown
from tests.unit.cli.cluster.switches import Parameters, switch

EVERY_ACTION = [str(action) for action in STOPS[BrakeKind.STOP]]
DISRUPTIONS = [str(action) for action in STOPS[BrakeKind.PAUSE]]


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Parameters:
    """Two clusters, of which `prod` runs and `test` is stopped."""
    session = Parameters(
        {switch("prod"): "run", switch("test"): " stop\n", "/fleetwright/prod/other": "x", "/else": "run"}
    )

    def found(cluster: str, **_: Any) -> Any:
        settings = SimpleNamespace(kill_switch_parameter=switch(cluster))
        return SimpleNamespace(settings=settings, stack=f"fleetwright-{cluster}", session=session, cluster=cluster)

    monkeypatch.setattr(cli.cluster.own_state, "_session", lambda *_: session)
    monkeypatch.setattr(cli.cluster.own_state, "find_installation", found)
    return session


def turned(mode: Mode, capsys: pytest.CaptureFixture[str], **given: Any) -> tuple[int, dict[str, Any]]:
    fixed = {
        "all": False,
        "role": [],
        "region": None,
        "profile": None,
        "stack": None,
        "output": "json",
        "cluster": None,
    }
    code = switch_to(argparse.Namespace(**{**fixed, **given}), mode)
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("mode", "before", "after", "code", "stops"),
    [
        (Mode.STOP, "run", "stop", 0, EVERY_ACTION),
        (Mode.RUN, "stop", "run", 0, []),
        (Mode.RUN, "run", "run", 0, []),
        (Mode.PAUSE_DISRUPTION, "run", "pause-disruption", 0, DISRUPTIONS),
        (Mode.PAUSE_DISRUPTION, "stop", "stop", 1, EVERY_ACTION),
        (Mode.PAUSE_DISRUPTION, "odd", "pause-disruption", 0, DISRUPTIONS),
    ],
)
def test_a_switch_is_turned_unless_it_is_stricter(
    mode: Mode,
    before: str,
    after: str,
    code: int,
    stops: list[str],
    account: Parameters,
    capsys: pytest.CaptureFixture[str],
) -> None:
    account.values[switch("prod")] = before
    ended, document = turned(mode, capsys, cluster="prod")
    (change,) = document["switches"]
    assert (ended, document["wanted"], document["unreadable"]) == (code, mode, [])
    assert change == {
        "cluster": "prod",
        "parameter": switch("prod"),
        "before": before,
        "after": after,
        "stops": stops,
    }
    assert account.values[switch("prod")] == after
    assert account.written == ([] if before == after else [switch("prod")])


def test_all_switches_are_turned_and_each_says_where_it_is(
    account: Parameters, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = turned(Mode.PAUSE_DISRUPTION, capsys, all=True, region="us-east-1")
    assert code == 1  # `test` stays stopped
    assert [(found["cluster"], found["after"], found["region"], found["role"]) for found in document["switches"]] == [
        ("prod", "pause-disruption", "us-east-1", None),
        ("test", "stop", "us-east-1", None),
    ]


def test_a_switch_that_cannot_be_turned_hides_no_other(account: Parameters, capsys: pytest.CaptureFixture[str]) -> None:
    account.denied = (switch("test"),)
    code, document = turned(Mode.RUN, capsys, all=True, region="us-east-1")
    assert (code, [found["cluster"] for found in document["switches"]]) == (1, ["prod"])
    (lost,) = document["unreadable"]
    assert (lost["cluster"], lost["region"], lost["role"]) == ("test", "us-east-1", None)
    assert lost["problem"].startswith("ssm:PutParameter: ")
    assert "hint" not in lost["problem"]
    account.denied = (switch("test"), switch("prod"))
    with pytest.raises(InputError, match=r"no cluster could be switched:\n.* cannot be switched: ssm:PutParameter"):
        turned(Mode.STOP, capsys, all=True, region="us-east-1")


def test_a_switch_that_was_turned_and_cannot_be_read_back_says_so(
    account: Parameters, capsys: pytest.CaptureFixture[str]
) -> None:
    """The answer was that the cluster could not be read: nobody knew that it was stopped."""
    account.unread = (switch("prod"),)
    code, document = turned(Mode.STOP, capsys, all=True, region="us-east-1")
    (lost,) = document["unreadable"]
    assert (code, account.values[switch("prod")]) == (1, "stop")
    assert lost["problem"].startswith("it is set to stop, but that cannot be read back: ssm:GetParameter: ")


def test_switches_are_found_by_their_path_and_sorted_by_cluster() -> None:
    session: Any = Parameters(
        {switch("b"): "run", switch("a"): "stop", "/fleetwright/a/b/mode": "run", "/fleetwright/x": "run"}
    )
    assert [(found.cluster, found.value) for found in KillSwitches(session).all()] == [("a", "stop"), ("b", "run")]


def test_functions_without_a_switch_cannot_be_stopped_by_one() -> None:
    installation: Any = SimpleNamespace(settings=SimpleNamespace(kill_switch_parameter=""), stack="own", session=None)
    with pytest.raises(InputError, match="the functions of own have no kill switch"):
        switch_of(installation)


def change(cluster: str, before: str, after: str, *stops: str) -> dict[str, Any]:
    return {"cluster": cluster, "before": before, "after": after, "stops": list(stops)}


def test_people_read_what_was_what_is_and_what_stays_stricter() -> None:
    changes = [change("prod", "run", "pause-disruption", "drift", "repair"), change("test", "stop", "stop", "launch")]
    text = switch_table({"wanted": "pause-disruption", "switches": changes, "unreadable": []})
    assert [line.split() for line in text.splitlines()[1:3]] == [
        ["prod", "run", "pause-disruption", "drift,", "repair"],
        ["test", "stop", "stop", "launch"],
    ]
    assert text.endswith("test is left at stop, which is stricter: run `fleetwright resume` to release it")
    quiet = switch_table({"wanted": "run", "switches": [change("prod", "stop", "run")], "unreadable": []})
    assert quiet.splitlines()[1].split() == ["prod", "stop", "run", "nothing"]
    assert quiet.endswith(NOTICED)
    lost = {"cluster": "a", "region": "r", "role": None, "problem": "denied"}
    assert switch_table({"wanted": "run", "switches": [], "unreadable": [lost]}).endswith(
        "a r cannot be switched: denied"
    )


def test_the_page_shows_one_cluster_that_is_paused_stopped_and_resumed(
    account: Parameters, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("pause --cluster prod", "pause --cluster prod --everything", "resume --cluster prod"):
        assert main([*command.split(), "-o", "table"]) == 0
        printed = capsys.readouterr().out
        assert is_told(shown("stop-it", command), printed), printed


ROLES = [f"--role arn:aws:iam::{digit * 12}:role/operator" for digit in "123"]
PAUSED = " ".join(["pause --all", *ROLES])


def test_the_page_shows_clusters_of_one_name_and_an_account_that_refuses(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def assumed(_: object, role: str) -> Parameters:
        account = role.split(":")[4]
        if account == "3" * 12:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not authorized"}}, "AssumeRole")
        own = Parameters({switch("shop"): "stop" if account == "2" * 12 else "run"}, account=account)
        own.region_name = "eu-west-1"
        return own

    monkeypatch.setattr(cli.cluster.own_state, "_session", lambda *_: Parameters({}))
    monkeypatch.setattr(organisation, "_assumed", assumed)
    assert main([*PAUSED.split(), "-o", "table"]) == 1
    printed = capsys.readouterr().out
    assert is_told(shown("several-clusters", PAUSED), printed), printed
