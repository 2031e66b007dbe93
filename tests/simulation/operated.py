"""A person with the command line inside a simulated world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import pytest

import simulator.run
from cli.cluster.installation import Installation
from simulator.world import World, open_world


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

    monkeypatch.setattr(simulator.run, "open_world", opened)
    monkeypatch.setattr("cli.cluster.installation.find_installation", find)
    return there
