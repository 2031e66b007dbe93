"""Decides whether each mutant is killed: in forks of one session if it is in a function, else in a separate session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from tests.mutation.areas import area_of
from tests.mutation.cold import import_libraries, killer_of
from tests.mutation.mutants import Mutant
from tests.mutation.session import Answer, run_session


class Fate(msgspec.Struct, frozen=True):
    """The result of a mutant: `killer` is the test that failed, empty for a survivor; `asked` tests run its line."""

    mutant: Mutant
    area: str
    killer: str
    asked: int


def fates_of(
    chosen: Sequence[Mutant], suites: Sequence[str], processes: int, tests_max: int | None = None
) -> Iterator[Fate]:
    """Each mutant's fate, as it becomes known; each is asked of `tests_max` tests of these suites at most.

    Raises:
        RuntimeError: If the session ends before it has answered for all.
    """
    if not chosen:
        return
    import_libraries()
    late: list[Answer] = []
    answered = 0
    for answer in _answers(chosen, suites, min(processes, len(chosen)), tests_max):
        answered += 1
        if answer.left is None:
            yield _fate(chosen[answer.number], answer.killer, answer.asked)
        else:
            late.append(answer)
    if answered < len(chosen):
        raise RuntimeError(f"the session answered for {answered} of {len(chosen)} mutants: its last lines say why")
    for answer in sorted(late, key=lambda answer: answer.number):
        mutant, tests = chosen[answer.number], answer.left or ()
        yield _fate(mutant, killer_of(mutant, tests[:tests_max]), len(tests))


def _fate(mutant: Mutant, killer: str, asked: int) -> Fate:
    return Fate(mutant, area_of(mutant.path), killer, asked)


def _answers(
    chosen: Sequence[Mutant], suites: Sequence[str], processes: int, tests_max: int | None
) -> Iterator[Answer]:
    """What a forked session says, line by line."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            status = run_session(chosen, suites, processes, write, tests_max)
        finally:
            os._exit(status if "status" in locals() else 70)
    os.close(write)
    with os.fdopen(read, "rb") as lines:
        for line in lines:
            yield msgspec.json.decode(line, type=Answer)
    os.waitpid(child, 0)
