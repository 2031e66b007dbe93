"""Commands that wait for approval, from the function that proposes to the person at the command line and on to the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import cli.cluster.own_state
import simulator.world
from cli.__main__ import main
from cli.cluster.own_state import Installation
from cli.commands.approve import _table
from cli.schemas.periods import ANSWERS
from cli.terminal.output import rfc3339
from core import labels
from core.reasons.runs import CommandReason
from simulator.aws.installation import CLUSTER
from simulator.world import Result, World, open_world, run
from tests.shown import is_told, shown
from tests.simulation.worlds import assert_lawful, deployment, happened, node_pool, write

BY = "arn:aws:iam::123456789012:user/ada"


class Operator:
    """A person at the command line of an embedded world: acts this many minutes after its start, and keeps the answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.answers: list[dict[str, Any]] = []
        self.codes: list[int] = []
        self.world: World | None = None

    def act(self, acts: dict[float, Callable[[World], None]]) -> None:
        @contextmanager
        def acted(*arguments: Any, **options: Any) -> Iterator[World]:
            with open_world(*arguments, **options) as world:
                self._arrive(world)
                for at, act in acts.items():
                    world.clock.after(timedelta(minutes=at), lambda act=act: act(world))
                yield world

        self._monkeypatch.setattr(simulator.world, "open_world", acted)

    def say(self, world: World, *words: str) -> None:
        """Run the program; the world keeps prints from the terminal, so its document is the answer."""
        now = ("--now", rfc3339(world.clock.now()))
        self.codes.append(main(["approve", *words, "--cluster", CLUSTER, "-o", "json", *now]))

    def _arrive(self, world: World) -> None:
        self.world = world
        here = Installation(cluster=CLUSTER, stack="here", settings=world._settings(), session=world.account.session)  # type: ignore[arg-type]
        self._monkeypatch.setattr(cli.cluster.own_state, "find_installation", lambda *_, **__: here)
        self._monkeypatch.setattr(cli.cluster.own_state, "caller", lambda _: BY)
        self._monkeypatch.setattr(
            "cli.commands.approve.output.show", lambda document, *_: self.answers.append(document)
        )


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Operator:
    return Operator(monkeypatch)


def play(folder: Path, **settings: Any) -> Result:
    """Twenty pods come and all but one go, so that nodes are empty."""
    steps = [{"at": "10m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}}]
    spec = {"duration": "35m", "settings": {"mode": "approve", **settings}}
    scenario = write(folder, node_pool(), deployment(20), steps=steps, **spec)
    return run(scenario, ledger=folder / "ledger")


@pytest.mark.ci
def test_what_a_person_approves_goes_and_nothing_else(tmp_path: Path, operator: Operator) -> None:
    """If this failed, a node would go that nobody agreed to, or an approval would do nothing."""

    def listed(world: World) -> None:
        operator.say(world, "--list")

    def decided(world: World) -> None:
        first, *_, last = operator.answers[0]["proposals"]
        operator.say(world, first["id"])
        operator.say(world, last["id"], "--reject")

    operator.act({20: listed, 22: decided, 32: listed})
    result = play(tmp_path)
    assert_lawful(result)
    waiting, approved, rejected, remaining = operator.answers
    first, *others, last = waiting["proposals"]
    assert operator.codes == [0, 0, 0, 0]
    assert {proposal["state"] for proposal in waiting["proposals"]} == {"waits"}
    assert approved["proposals"][0]["verdict"]["by"] == rejected["proposals"][0]["verdict"]["by"] == BY
    gone = happened(result, "nodeTainted")
    assert sorted({event.fields["node"] for event in gone}) == sorted(first["nodes"])
    assert min(event.t for event in gone) > "2026-11-20T00:22:00Z"
    assert {proposal["id"] for proposal in others} <= {proposal["id"] for proposal in remaining["proposals"]}
    assert last["id"] not in {proposal["id"] for proposal in remaining["proposals"]}
    for answer in operator.answers:
        msgspec.convert(answer, type=ANSWERS["approve"])
    assert is_told(shown("approve", "approve --list --cluster prod"), _table(waiting))
    assert is_told(shown("approve", "approve 81c0d2f7aa --cluster prod"), _table(approved))
    assert operator.world is not None
    told = operator.world.account.topics.published
    assert first["text"] in told[0].text
    assert logged(tmp_path, operator) == {"waits for approval", f"came to nothing: {CommandReason.REJECTED}"}


@pytest.mark.ci
def test_a_second_person_sees_what_the_first_has_said(
    tmp_path: Path, operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rejection that the functions had not seen yet was shown as waiting, and a late approval was refused without a word."""

    def first(world: World) -> None:
        operator.say(world, "--list")
        operator.say(world, operator.answers[0]["proposals"][0]["id"][:4], "--reject")

    def second(world: World) -> None:
        operator.say(world, operator.answers[0]["proposals"][0]["id"])

    operator.act({20: first, 25: second})
    play(tmp_path)
    _, rejected, late = (answer["proposals"][0] for answer in operator.answers)
    assert (rejected["state"], late["state"], late["end"]["reason"]) == ("rejected", "ended", CommandReason.REJECTED)
    assert operator.codes == [0, 0, 1]
    assert "hint: it waits no longer; `fleetwright approve --list" in capsys.readouterr().err


@pytest.mark.ci
def test_small_commands_go_without_asking(tmp_path: Path, operator: Operator) -> None:
    """Else people would be asked until they approve unread."""
    operator.act({30: lambda world: operator.say(world, "--list")})
    result = play(tmp_path, approveAboveNodes=5, approveNamespaces="payments-*")
    assert_lawful(result)
    assert happened(result, "nodeTainted")
    assert operator.answers[0]["proposals"] == []


def test_drift_of_guarded_pods_that_block_their_eviction_goes_once_it_is_approved(
    tmp_path: Path, operator: Operator
) -> None:
    """It names no moves of them, so that it was dropped after each approval and proposed again for ever."""

    def approve(world: World) -> None:
        operator.say(world, "--list")
        for proposal in operator.answers[-1]["proposals"]:
            operator.say(world, proposal["id"])

    operator.act({25: approve})
    guarded = deployment(1, "ledger", cpu="200m")
    guarded["metadata"]["namespace"] = "payments"
    guarded["spec"]["template"]["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    pool, changed = node_pool(), node_pool()
    for manifest in (pool, changed):
        manifest["spec"]["template"]["spec"]["terminationGracePeriod"] = "3m"
    changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
    steps = [{"at": "10m", "apply": [changed]}]
    settings = {"mode": "approve", "approveNamespaces": "payments"}
    scenario = write(tmp_path, pool, deployment(1), guarded, steps=steps, duration="40m", settings=settings)
    result = run(scenario, ledger=tmp_path / "ledger")
    assert_lawful(result)
    (proposal,) = operator.answers[0]["proposals"]
    assert "payments" in proposal["why"]
    assert [decision["reason"] for decision in result.decisions if decision["kind"] == "abandon"] == []
    (gone,) = happened(result, "nodeTainted")
    assert gone.fields["node"] in proposal["nodes"]
    assert gone.t > "2026-11-20T00:25:00"
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (1, 0)


def logged(folder: Path, operator: Operator) -> set[str]:
    """States of what `disrupt` proposed."""
    assert main(["log", "--ledger", str(folder / "ledger"), "--acts", "-o", "json"]) == 0
    return {line["state"] for line in operator.answers[-1]["entries"] if line["function"] == "disrupt"}
