"""`status`, `explain`, `pause` and `resume` beside running functions observe the same, and change nothing else."""

from __future__ import annotations

import json
import pydoc
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError

import cli.cluster.own_state
import cli.ledger.entries
from adapters.composition.functions import Adapters
from cli.__main__ import main
from cli.ledger.entries import FolderLedger
from cli.schemas.periods import ANSWERS
from core.disruption.target.move_price import settings_digest
from core.model.plan import StoredTarget
from core.model.snapshot import Snapshot
from installation.wiring import TABLE
from simulator.aws.installation import KILL_SWITCH, read_region
from simulator.clock import VirtualClock
from simulator.record import Recorder
from simulator.scenario import read_scenario
from simulator.steps import OwnCatalogue
from simulator.world import World, open_world, run, seeded
from tests.builders import a_stored_target
from tests.simulation.worlds import deployment, node_pool, write

Ask = Callable[..., dict[str, Any]]
READS = ("Get", "Describe", "List", "Query", "BatchGet", "Scan")


class Paged:
    """A paginator with one page."""

    def __init__(self, page: dict[str, Any]) -> None:
        self._page = page

    def paginate(self, **_: Any) -> list[dict[str, Any]]:
        return [self._page]


class Deployed:
    """The stack and its functions, which the embedded account does not have."""

    def __init__(self, world: World) -> None:
        self._world = world

    def get_paginator(self, _: str) -> Paged:
        function = {"LogicalResourceId": "provisionFunction1A2B", "PhysicalResourceId": "fleetwright-provision"}
        return Paged({"StackResourceSummaries": [{"ResourceType": "AWS::Lambda::Function", **function}]})

    def get_function_configuration(self, **_: Any) -> dict[str, Any]:
        return {"Environment": {"Variables": self._world.account.settings.to_environment()}}


class Parameters:
    """SSM with a kill switch that can be set."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.meta = world.account.session.client("ssm").meta

    def get_parameter(self, **parameters: Any) -> dict[str, Any]:
        return self._world.account.session.client("ssm").get_parameter(**parameters)

    def get_paginator(self, _: str) -> Paged:
        return Paged({"Parameters": [{"Name": KILL_SWITCH, "Value": self._world.account.brakes.mode}]})

    def put_parameter(self, *, Name: str, Value: str, Overwrite: bool) -> None:  # noqa: N803 - as boto3 names them
        assert (Name, Overwrite) == (KILL_SWITCH, True)
        self._world.account.brakes.mode = Value


class Session:
    """The user's own session in the account."""

    region_name = "us-east-1"

    def __init__(self, world: World) -> None:
        self._world = world

    def get_credentials(self) -> None:
        return None

    def client(self, service: str, **more: Any) -> Any:
        if service in ("cloudformation", "lambda"):
            return Deployed(self._world)
        return Parameters(self._world) if service == "ssm" else self._world.account.session.client(service, **more)


def has_command(world: World) -> bool:
    return any(
        item[TABLE.partition_key]["S"] == f"{world.account.settings.cluster_name}#commands"
        for item in world.account.table.all()
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A cluster at the moment when a node is about to go, the other stays."""
    folder = tmp_path_factory.mktemp("status")
    steps = [{"at": "9m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}}]
    budgets = [{"nodes": "100%"}, {"nodes": "0", "schedule": "0 8 * * *", "duration": "1h"}]
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m", "budgets": budgets}
    pool = node_pool(disruption=disruption)
    rule = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    app = deployment(3)
    app["spec"]["template"]["spec"]["topologySpreadConstraints"] = [
        {**rule, "labelSelector": {"matchLabels": {"app": "web"}}}
    ]
    scenario = read_scenario(write(folder, pool, app, steps=steps, duration="40m"))
    clock = VirtualClock(scenario.start)
    recorder = Recorder(clock)
    with seeded(1), open_world(scenario, read_region(scenario.catalogue_file), 1, recorder, clock) as opened:
        opened.play([])
        while not has_command(opened) and clock.now() < scenario.start + scenario.duration:
            clock.run_until(clock.now() + timedelta(seconds=5))
        yield opened


@pytest.fixture
def ask(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """A command on the cluster at the world's moment, as data; told which writes it made."""
    import boto3

    session = Session(world)
    monkeypatch.setattr(cli.cluster.own_state, "_session", lambda *_: session)
    monkeypatch.setattr(boto3, "Session", lambda **_: session)
    monkeypatch.setattr(cli.cluster.own_state, "_kubernetes", lambda *_: world.cluster.api)
    market = OwnCatalogue(world.clock, world.account.exchange, "us-east-1")
    monkeypatch.setattr(cli.cluster.own_state.ReadOnlyAdapters, "catalogues", market)

    def asked(*arguments: str) -> dict[str, Any]:
        code = main([*arguments, "-o", "json"])
        told = capsys.readouterr()
        assert code in (0, 1), told.err
        answer: dict[str, Any] = json.loads(told.out)
        return {"exit": code, **answer}

    return asked


def live(world: World, command: str, *more: str) -> list[str]:
    return [command, *more, "--cluster", "fleetwright", "--now", world.clock.now().isoformat()]


def test_the_status_is_what_runs_and_what_is_about_to_happen(world: World, ask: Ask) -> None:
    document = ask(*live(world, "status"))
    running = [instance for instance in world.account.instances.all() if instance.state == "running"]
    prices = [world.account.exchange.price(instance.pool) or 0 for instance in running]
    assert document["cost"]["hourly"] == pytest.approx(sum(prices) / 10**9, abs=1e-9)
    assert len(document["claims"]) == len(running)
    (command,) = document["commands"]
    assert set(command["nodes"]) < {claim["node"] for claim in document["claims"]}
    assert document["brakes"] == document["breakers"] == []
    (pool,) = document["nodePools"]
    assert pool["nextWindow"]["at"] == "2026-11-20T08:00:00Z"
    assert set(pool["nextWindow"]["allowed"].values()) == {0}
    assert document["sweeps"]["failing"] == []
    msgspec.convert(document, ANSWERS["status"])


def test_asking_changes_nothing(world: World, ask: Ask) -> None:
    """A read-only command must not take a lease, change a row or write an object."""
    calls: list[str] = []
    world.account.wire.listen(lambda call, _: calls.append(call.operation))
    happened: list[str] = []
    world.recorder.listen(lambda event: happened.append(event.event))
    for command in ("status", "plan", "consolidate"):
        ask(*live(world, command))
    assert calls
    assert [call for call in calls if not call.startswith(READS)] == []
    assert happened == []


def test_explain_says_of_a_node_what_disrupt_would_say(world: World, ask: Ask) -> None:
    (command,) = ask(*live(world, "status"))["commands"]
    told = ask(*live(world, "explain", command["nodes"][0]))
    assert told["node"] == command["nodes"][0]
    assert told["outcome"].startswith("goes")


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("plan", "core.disruption.static_capacity.schedule_beside_static_nodes"),
        ("consolidate", "core.disruption.disrupt"),
    ],
)
def test_decisions_follow_the_target_under_way(
    world: World, ask: Ask, command: str, decision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They told of another target than the functions carry out, and offered room on nodes that these drain."""
    kept = Adapters(world.account.settings, world.account.session, world.clock).targets
    snapshot = world.application().shared.observer.observe().snapshot
    target_fields = {"made_at": world.clock.now(), "settings": settings_digest(snapshot)}
    target = a_stored_target(snapshot.nodes[0].name, **target_fields)
    read: list[StoredTarget | None] = []
    decide = pydoc.locate(decision)

    def decided(snapshot: Snapshot, *arguments: Any, **options: Any) -> Any:
        read.append(snapshot.stored_target)
        return decide(snapshot, *arguments, **options)

    monkeypatch.setattr(decision, decided)
    kept.write(target)
    try:
        ask(*live(world, command))
    finally:
        kept.write(None)
    ask(*live(world, command))
    assert read == [target, None]


def test_pause_and_resume_turn_the_kill_switch_and_status_shows_it(world: World, ask: Ask) -> None:
    paused = ask("pause", "--cluster", "fleetwright")
    assert (paused["exit"], world.account.brakes.mode) == (0, "pause-disruption")
    (brake,) = ask(*live(world, "status"))["brakes"]
    assert brake["brake"] == "KillSwitchPause"
    (pool,) = ask(*live(world, "status"))["nodePools"]
    assert "pause-disruption" in pool["paused"]
    stopped = ask("pause", "--all", "--everything")
    assert [(switch["cluster"], switch["before"], switch["after"]) for switch in stopped["switches"]] == [
        ("simulated", "pause-disruption", "stop")
    ]
    assert "launch" in stopped["switches"][0]["stops"]
    loosened = ask("pause", "--cluster", "fleetwright")
    assert (loosened["exit"], world.account.brakes.mode) == (1, "stop")
    assert ask("resume", "--cluster", "fleetwright")["switches"][0]["after"] == "run"
    assert ask(*live(world, "status"))["brakes"] == []


class Denied:
    """An account in which nothing may be read."""

    region_name = "eu-west-1"

    def get_credentials(self) -> None:
        return None

    def client(self, _: str, **__: Any) -> Denied:
        return self

    def get_paginator(self, _: str) -> Denied:
        return self

    def paginate(self, **_: Any) -> Any:
        answer = {"Error": {"Code": "AccessDeniedException", "Message": "ada may not look here"}}
        raise ClientError(answer, "GetParametersByPath")


class Roles(Session):
    """A session that may assume one role."""

    def client(self, service: str, **more: Any) -> Any:
        return self if service == "sts" else super().client(service, **more)

    def assume_role(self, *, RoleArn: str, RoleSessionName: str) -> dict[str, Any]:  # noqa: N803 - as boto3 names them
        if RoleArn != OPERATOR:
            answer = {"Error": {"Code": "AccessDenied", "Message": f"{RoleSessionName} may not assume {RoleArn}"}}
            raise ClientError(answer, "AssumeRole")
        return {"Credentials": dict.fromkeys(("AccessKeyId", "SecretAccessKey", "SessionToken"), "k")}


OPERATOR = "arn:aws:iam::111122223333:role/operator"


@pytest.fixture
def two_regions(world: World, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """One region may be read, the other not."""
    import boto3

    def session(_: str | None, region: str | None) -> Any:
        return Denied() if region == "eu-west-1" else Roles(world)

    monkeypatch.setattr(cli.cluster.own_state, "_session", session)
    monkeypatch.setattr(boto3, "Session", lambda **_: Roles(world))
    return ask


def test_every_cluster_is_shown_and_what_may_not_be_read_is_named(world: World, two_regions: Ask) -> None:
    """Otherwise, an unread cluster would look healthy."""
    now = ("--now", world.clock.now().isoformat())
    document = two_regions("status", "--all", "--region", "us-east-1,eu-west-1", *now)
    (only,) = document["clusters"]
    assert (only["cluster"], only["region"]) == ("simulated", "us-east-1")
    assert only["claims"] == two_regions(*live(world, "status"))["claims"] != []
    (denied,) = document["unreadable"]
    assert (denied["region"], "ada may not look here" in denied["problem"]) == ("eu-west-1", True)
    assert document["exit"] == 1
    assert two_regions("status", "--all", *now)["exit"] == 0


def test_roles_are_assumed_and_one_that_may_not_be_is_named(world: World, two_regions: Ask) -> None:
    other = "arn:aws:iam::444455556666:role/other"
    now = ("--now", world.clock.now().isoformat())
    document = two_regions("status", "--all", "--role", OPERATOR, "--role", other, *now)
    assert [cluster["role"] for cluster in document["clusters"]] == [OPERATOR]
    assert [cluster["role"] for cluster in document["unreadable"]] == [other]
    assert document["exit"] == 1


def test_the_clusters_that_can_be_are_paused_and_the_others_named(world: World, two_regions: Ask) -> None:
    """One account without rights must not keep the others running in an outage."""
    paused = two_regions("pause", "--all", "--region", "eu-west-1,us-east-1")
    assert world.account.brakes.mode == "pause-disruption"
    assert ([switch["after"] for switch in paused["switches"]], paused["exit"]) == (["pause-disruption"], 1)
    assert [cluster["region"] for cluster in paused["unreadable"]] == ["eu-west-1"]
    resumed = two_regions("resume", "--all")
    assert (resumed["exit"], resumed["unreadable"], world.account.brakes.mode) == (0, [], "run")
    msgspec.convert(resumed, ANSWERS["pause"])


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--all", "--region", "eu-west-1"),
        ("status", "--all", "--cluster", "fleetwright"),
        ("status", "--role", OPERATOR),
        ("log",),
    ],
)
def test_an_answer_about_nothing_is_an_error(
    words: tuple[str, ...], two_regions: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "-o", "json"]) == 2
    assert capsys.readouterr().out == ""


def test_the_log_of_every_cluster_is_one_log(
    world: World, two_regions: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each line says whose it is; `--cluster` finds the bucket by itself."""
    folder = tmp_path_factory.mktemp("kept")
    result_of_a_run(folder)
    monkeypatch.setattr(cli.ledger.entries, "ledger_of_bucket", lambda *_: FolderLedger(folder / "ledger"))
    one_cluster = two_regions("log", "--cluster", "fleetwright")
    both = two_regions("log", "--all", "--region", "us-east-1,eu-west-1")
    assert [line["id"] for line in both["entries"]] == [line["id"] for line in one_cluster["entries"]] != []
    assert {line["cluster"] for line in both["entries"]} == {"simulated"}
    assert (one_cluster["exit"], both["exit"]) == (0, 1)


def result_of_a_run(folder: Path) -> None:
    """A short run whose ledger is kept."""
    run(write(folder, node_pool(), deployment(1), steps=[], duration="3m"), ledger=folder / "ledger")
