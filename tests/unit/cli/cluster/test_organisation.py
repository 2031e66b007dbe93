"""Clusters are looked for in every region and account, and what cannot be asked is told."""

from __future__ import annotations

import argparse
import json
from threading import Barrier
from typing import Any

import pytest
from botocore.exceptions import ClientError

import cli.cluster.own_state
from cli.__main__ import main
from cli.cluster import organisation
from cli.cluster.organisation import FoundCluster, Organisation, distinct_names, find_organisation, unreadable_text
from cli.errors import InputError
from tests.unit.cli.cluster.switches import Parameters, switch

COMMANDS = (("status", "--all"), ("log", "--all"), ("pause", "--all"), ("resume", "--all"))


class Denied:
    """A session whose every call is refused."""

    region_name = "us-east-1"

    def get_credentials(self) -> None:
        return None

    def client(self, service: str, config: Any) -> Any:
        from botocore.exceptions import NoCredentialsError

        raise NoCredentialsError


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_is_told_that_there_is_no_cluster_where_nothing_could_be_asked(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said `there is no cluster with an installation`, and each hint twice."""
    monkeypatch.setattr(cli.cluster.own_state, "_session", lambda *_: Denied())
    assert main([*command, "--region", "us-east-1"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fleetwright: no cluster could be found: us-east-1 cannot be read: ")
    assert "Unable to locate credentials" in said
    assert said.count("hint: ") == 1


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str | None]]:
    """Sessions of any profile and region, each with one cluster that is named after its region; `bad` has no credentials."""
    found: list[tuple[str | None, str | None]] = []

    def session(profile: str | None, region: str | None) -> Any:
        found.append((profile, region))
        if region == "bad":
            return Denied()
        own = Parameters({switch(f"in-{region}"): "run"} if region != "empty" else {})
        own.region_name = region or "default"
        return own

    monkeypatch.setattr(cli.cluster.own_state, "_session", session)
    return found


def searched(region: str | None, *roles: str) -> Organisation:
    return find_organisation(argparse.Namespace(region=region, role=list(roles), profile="own"))


@pytest.mark.parametrize(
    ("region", "regions", "clusters"),
    [
        (None, [None], ["in-None"]),
        ("a", ["a"], ["in-a"]),
        (" a, b,,", ["a", "b"], ["in-a", "in-b"]),
        ("a,b,a", ["a", "b"], ["in-a", "in-b"]),
        ("a,empty", ["a", "empty"], ["in-a"]),
    ],
)
def test_each_region_is_searched(
    region: str | None, regions: list[str | None], clusters: list[str], asked_for: list[Any]
) -> None:
    found = searched(region)
    assert asked_for == [("own", one) for one in regions]
    assert [one.name for one in found.clusters] == clusters
    assert found.clusters[0].where() == {
        "cluster": clusters[0],
        "region": regions[0] or "default",
        "account": None,
        "role": None,
    }


def test_a_region_that_cannot_be_read_hides_no_other(asked_for: list[Any]) -> None:
    found = searched("bad,a")
    assert [one.name for one in found.clusters] == ["in-a"]
    (lost,) = found.unreadable
    assert (lost.cluster, lost.region, lost.role) == ("", "us-east-1", "")
    assert lost.document()["cluster"] is None
    assert "hint" not in lost.problem


def test_no_cluster_at_all_is_refused(asked_for: list[Any]) -> None:
    with pytest.raises(InputError, match="there is no cluster with an installation"):
        searched("empty")


def test_each_account_is_searched_under_its_role(asked_for: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def assumed(session: Any, role: str) -> Any:
        if role == "denied":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRole")
        own = Parameters({switch(f"of-{role}"): "run"})
        own.region_name = session.region_name
        return own

    monkeypatch.setattr(organisation, "_assumed", assumed)
    found = searched("a,b", "one", "denied")
    assert [(one.name, one.site.region, one.site.role) for one in found.clusters] == [
        ("of-one", "a", "one"),
        ("of-one", "b", "one"),
    ]
    assert [(lost.region, lost.role) for lost in found.unreadable] == [("a", "denied"), ("b", "denied")]
    assert all(lost.problem.startswith("sts:AssumeRole: ") for lost in found.unreadable)
    assert found.clusters[0].where()["role"] == "one"


def test_a_question_that_one_cluster_cannot_answer_is_answered_by_the_others(asked_for: list[Any]) -> None:
    found = searched("a,b")

    def question(cluster: FoundCluster) -> str:
        if cluster.name == "in-a":
            raise InputError("no stack", hint="look elsewhere")
        return cluster.name.upper()

    answers, failed = found.ask(question)
    assert [(cluster.name, answer) for cluster, answer in answers] == [("in-b", "IN-B")]
    assert [one.document() for one in failed] == [
        {"cluster": "in-a", "region": "a", "role": None, "problem": "no stack"}
    ]
    with pytest.raises(InputError, match="no cluster could be read:\nin-a a cannot be read: no stack"):
        Organisation(found.clusters[:1], ()).ask(question)


@pytest.mark.parametrize(
    ("cluster", "region", "role", "text"),
    [
        ("prod", "eu-west-1", "arn", "prod eu-west-1 arn cannot be read: denied"),
        (None, "eu-west-1", None, "eu-west-1 cannot be read: denied"),
        (None, None, None, "the account cannot be read: denied"),
    ],
)
def test_what_could_not_be_read_is_named(cluster: str | None, region: str | None, role: str | None, text: str) -> None:
    assert unreadable_text([{"cluster": cluster, "region": region, "role": role, "problem": "denied"}]) == text
    assert unreadable_text([]) == ""


def test_a_cluster_that_was_found_has_its_installation(asked_for: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organisation, "installation_in", lambda session, name: (session.region_name, name))
    (found,) = searched("a").clusters
    assert found.installation() == ("a", "in-a")  # type: ignore[comparison-overlap]


def test_regions_are_asked_side_by_side(asked_for: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An emergency stop waited minutes for a region that did not answer, before it reached the next."""
    together = Barrier(2, timeout=10)
    alone = organisation.KillSwitches.all

    def meeting(switches: organisation.KillSwitches) -> Any:
        together.wait()
        return alone(switches)

    monkeypatch.setattr(organisation.KillSwitches, "all", meeting)
    found = searched("a,b")

    def question(cluster: FoundCluster) -> str:
        together.wait()
        return cluster.name

    answers, failed = found.ask(question)
    assert ([answer for _, answer in answers], failed) == (["in-a", "in-b"], ())


def test_a_bug_that_one_cluster_shows_hides_no_other(asked_for: list[Any]) -> None:
    """A row that this version could not understand ended `pause --all` with an internal error."""

    def question(cluster: FoundCluster) -> str:
        return {"in-b": "yes"}[cluster.name]

    answers, failed = searched("a,b").ask(question)
    assert [answer for _, answer in answers] == ["yes"]
    assert [lost.problem for lost in failed] == ["internal error: KeyError: 'in-a'"]


def test_credentials_that_have_expired_are_told_for_each_region(monkeypatch: pytest.MonkeyPatch) -> None:
    class Expired:
        def get_credentials(self) -> Expired:
            return self

        def get_frozen_credentials(self) -> None:
            raise ClientError({"Error": {"Code": "ExpiredToken", "Message": "sign in again"}}, "AssumeRole")

    monkeypatch.setattr(cli.cluster.own_state, "_session", lambda *_: Expired())
    with pytest.raises(InputError, match=r"a cannot be read: .*ExpiredToken.*; b cannot be read: .*ExpiredToken"):
        searched("a,b")


@pytest.fixture
def shops(asked_for: list[Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Parameters]:
    """Role → its parameters: `viewer` and `operator` belong to account 1, and `other` to account 2."""
    account_of = {"viewer": "1", "operator": "1", "other": "2"}
    parameters = {role: Parameters({switch("shop"): "run"}, account=of) for role, of in account_of.items()}

    def assumed(session: Any, role: str) -> Any:
        parameters[role].region_name = session.region_name
        return parameters[role]

    monkeypatch.setattr(organisation, "_assumed", assumed)
    return parameters


def test_two_roles_of_one_account_show_each_cluster_once(shops: dict[str, Parameters]) -> None:
    found = searched("a", "viewer", "operator", "other", "viewer")
    answers, failed = found.ask(lambda cluster: cluster.where()["account"])
    assert [(cluster.site.role, answer) for cluster, answer in answers] == [("viewer", "1"), ("other", "2")]
    assert failed == ()


def test_a_cluster_that_one_role_may_not_switch_is_switched_under_the_next(
    shops: dict[str, Parameters], capsys: pytest.CaptureFixture[str]
) -> None:
    """`pause --all` said that no cluster could be switched, and never tried the second role of an account."""
    shops["viewer"].denied = (switch("shop"),)
    roles = ["--role", "viewer", "--role", "operator", "--role", "other"]
    assert main(["pause", "--all", "--region", "a", *roles, "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [one["role"] for one in said["switches"]] == ["operator", "other"]
    assert {one["after"] for one in said["switches"]} == {"pause-disruption"}
    assert said["unreadable"] == []


def test_a_cluster_that_no_role_may_read_is_told_for_each(shops: dict[str, Parameters]) -> None:
    def question(cluster: FoundCluster) -> str:
        if cluster.where()["account"] == "1":
            raise InputError("denied")
        return cluster.name

    answers, failed = searched("a", "viewer", "operator", "other").ask(question)
    assert [answer for _, answer in answers] == ["shop"]
    assert [(lost.cluster, lost.role) for lost in failed] == [("shop", "viewer"), ("shop", "operator")]


def test_a_stack_is_named_for_one_cluster_only(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert main([*command, "--stack", "mine"]) == 2
        assert "--stack is for --cluster" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([("shop", "a", "1"), ("batch", "a", "1")], ["shop", "batch"]),
        ([("shop", "a", "1"), ("shop", "b", "1"), ("shop", "a", "1")], ["shop a", "shop b", "shop a"]),
        ([("shop", "a", "1"), ("shop", "a", "2"), ("batch", "a", "2")], ["shop a 1", "shop a 2", "batch"]),
        ([("shop", "a", None)], ["shop"]),
    ],
)
def test_clusters_of_the_same_name_are_told_apart(found: list[tuple[str, str, str | None]], names: list[str]) -> None:
    """`pause --all` said twice what it did to `shop`, of two accounts."""
    assert distinct_names([{"cluster": c, "region": r, "account": a, "role": None} for c, r, a in found]) == names
    assert distinct_names([{"cluster": "alone"}]) == ["alone"]
