"""Decides whether each mutant is killed: in forks of one session if it is in a function, else in a separate session."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence

import msgspec

from tests.mutation.areas import area_of
from tests.mutation.cold import import_libraries, killer_of
from tests.mutation.forks import in_hands
from tests.mutation.mutants import Mutant
from tests.mutation.session import Answer, Asked, Limits, encoded, run_session

Round = Callable[[Sequence[Mutant]], list[str]]
"""The suites that are asked of these mutants."""


class Fate(msgspec.Struct, frozen=True):
    """The result of a mutant.

    Attributes:
        mutant: The fault.
        area: Of its module.
        killer: The test that failed; empty for a survivor.
        asked: So many tests that run its line were asked.
        left_out: So many more run its line, but were not asked, for they take too long.
    """

    mutant: Mutant
    area: str
    killer: str = ""
    asked: int = 0
    left_out: int = 0


def fates_of(chosen: Sequence[Mutant], rounds: Sequence[Round], processes: int, limits: Limits) -> Iterator[Fate]:
    """Each mutant's fate, as it becomes known: each round asks its suites of the mutants that those before left alive.

    Raises:
        RuntimeError: If a session ends before it has answered for all.
    """
    import_libraries()
    living = [_fate(mutant) for mutant in chosen]
    before: list[str] = []
    for number, suites_of in enumerate(rounds):
        began, survived = used(), []
        suites = suites_of([fate.mutant for fate in living])
        for one, answer in _round(living, Asked(tuple(suites), tuple(before), limits), processes):
            fate = msgspec.structs.replace(
                one, killer=answer.killer, asked=one.asked + answer.asked, left_out=one.left_out + answer.left_out
            )
            if fate.killer or number == len(rounds) - 1:
                yield fate
            else:
                survived.append(fate)
        sys.stderr.write(f"round {number + 1}: {len(living)} asked, {used() - began:.0f} s of a processor\n")
        living = sorted(survived, key=lambda fate: fate.mutant)
        before += suites


def used() -> float:
    """Seconds of a processor that this process and its children that have ended used."""
    return sum(os.times()[:4])


def _fate(mutant: Mutant) -> Fate:
    return Fate(mutant, area_of(mutant.path))


def _round(living: Sequence[Fate], asked: Asked, processes: int) -> Iterator[tuple[Fate, Answer]]:
    """What the tests of a round say about each of these; those in code that runs at import come last."""
    if not living or not asked.suites:
        yield from ((fate, Answer(number)) for number, fate in enumerate(living))
        return
    chosen = [fate.mutant for fate in living]
    hands = min(processes, len(chosen))
    late: list[Answer] = []
    answered = 0
    for answer in _said(lambda write: run_session(chosen, asked, hands, write)):
        answered += 1
        if answer.left is None:
            yield living[answer.number], answer
        else:
            late.append(answer)
    if answered < len(chosen):
        raise RuntimeError(f"the session answered for {answered} of {len(chosen)} mutants: its last lines say why")
    for answer in _said(lambda write: _play_late(chosen, late, hands, write)):
        answered += 1
        yield living[answer.number], answer
    if answered < len(chosen) + len(late):
        raise RuntimeError(f"{len(chosen) + len(late) - answered} mutants in code that runs at import have no answer")


def _play_late(chosen: Sequence[Mutant], late: Sequence[Answer], processes: int, write: int) -> int:
    """Play mutants that their modules must be imported with, in so many processes."""

    def play(first: int) -> None:
        for answer in late[first::processes]:
            killer = killer_of(chosen[answer.number], answer.left or ())
            os.write(write, encoded(msgspec.structs.replace(answer, killer=killer, left=None)))

    in_hands(processes, play)
    return 0


def _said(body: Callable[[int], int]) -> Iterator[Answer]:
    """What a forked process says, line by line."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            status = body(write)
        finally:
            os._exit(status if "status" in locals() else 70)
    os.close(write)
    with os.fdopen(read, "rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=Answer)
    os.waitpid(child, 0)
