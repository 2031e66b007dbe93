"""A NodePool whose breaker is half open tries one command at a time, the others as many as are decided."""

from __future__ import annotations

from core.brakes.probes import one_at_a_time
from core.model.plan import Command

POOLS = {"a-1": "a", "a-2": "a", "b-1": "b", "b-2": "b"}


def command(*claims: str) -> Command:
    return Command(reason="Underutilized", method="single", nodes=claims, claims=claims)


def begun(*commands: Command, under_way: tuple[Command, ...] = (), probed: tuple[str, ...] = ("a",)) -> list[str]:
    return [found.claims[0] for found in one_at_a_time(commands, under_way, POOLS, probed)]


def test_one_command_of_a_probed_pool_begins_and_all_of_others() -> None:
    assert begun(command("a-1"), command("b-1"), command("a-2"), command("b-2")) == ["a-1", "b-1", "b-2"]


def test_none_begins_while_one_is_under_way() -> None:
    assert begun(command("a-2"), command("b-1"), under_way=(command("a-1"),)) == ["b-1"]


def test_a_command_of_several_pools_takes_the_turn_of_each() -> None:
    both = command("b-1", "a-1")
    assert begun(both, command("a-2"), command("b-2"), probed=("a", "b")) == ["b-1"]
    assert begun(command("a-1"), both, probed=("a", "b")) == ["a-1"]
