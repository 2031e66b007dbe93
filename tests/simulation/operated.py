"""A person with the command line inside a simulated world."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from typing import Any, Protocol, TypeVar

import msgspec
import pytest

import simulator.world
from adapters.composition.functions import Adapters
from adapters.runtime import TaskRunners, in_turn
from cli.cluster.own_state import Installation
from cli.schemas.periods import ANSWERS
from simulator.world import World, open_world


class WorldOperator:
    """A person who runs commands with the functions' adapters, at chosen minutes of a world.

    Attributes:
        answers: What the commands printed, in order, with their exit codes.
        called: The AWS calls that they made.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.answers: list[tuple[dict[str, Any], int]] = []
        self.called: set[str] = set()
        self._is_running = False
        world.account.wire.listen(self._record_call)

    def at(self, minutes: float, act: Callable[[], None]) -> None:
        """Do `act` this many minutes from now."""
        self.world.clock.after(timedelta(minutes=minutes), act)

    def switch(self, mode: str) -> Callable[[], None]:
        """Return the action that sets the kill switch."""

        def turn() -> None:
            self.world.account.brakes.mode = mode

        return turn

    def adapters(self) -> Adapters:
        """Return adapters of the world; nothing waits and nothing runs in parallel."""
        world = self.world
        return Adapters(
            world._settings(),
            world.account.session,
            world.clock,
            kubernetes=world.cluster.api,
            catalogues=world._catalogues,
            pause=lambda _: None,
            run_tasks=TaskRunners(messages=in_turn, launches=in_turn),
        )

    def answer(self, run: Callable[[], int], name: str) -> None:
        """Run a command and keep its answer, which must conform to the schema of this name."""
        self._is_running = True
        try:
            with redirect_stdout(io.StringIO()) as out:
                code = run()
        finally:
            self._is_running = False
        msgspec.json.decode(out.getvalue(), type=ANSWERS[name])
        self.answers.append((json.loads(out.getvalue()), code))

    def _record_call(self, call: Any, _: Any) -> None:
        if self._is_running:
            self.called.add(call.name)


class HasWorld(Protocol):
    """A person who acts in a world."""

    world: World


Person = TypeVar("Person", bound=HasWorld)


def operated(
    monkeypatch: pytest.MonkeyPatch, person: Callable[[World], Person], script: Callable[[Person], None]
) -> list[Person]:
    """Put a person into the next world; commands find its installation. The list holds the person once the world is open.

    Args:
        monkeypatch: Undoes it after the test.
        person: Makes the person.
        script: Schedules their actions before time begins.
    """
    there: list[Person] = []

    @contextmanager
    def opened(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:
            there.append(person(world))
            script(there[0])
            yield world

    def find(cluster: str, **_: Any) -> Installation:
        world = there[0].world
        session: Any = world.account.session
        return Installation(cluster=cluster, stack="s", settings=world._settings(), session=session)

    monkeypatch.setattr(simulator.world, "open_world", opened)
    monkeypatch.setattr("cli.cluster.own_state.find_installation", find)
    return there
