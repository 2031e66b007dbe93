"""Applies one mutant at a time and asks the tests of its area: `python -m tests.mutation --sample 500 --seed 1`.

It is asked in rounds, each of what the one before left alive: of the tests at its module's path, of those that compare whole
results of its area, of the other tests of its area. A round first notes which of its tests executes which lines (kept in
build/mutants-lines.json until code or tests change), and asks only those that run the mutant, the cheapest first, up to
`--seconds` of them; survivors that more tests run are counted. A kill is asked for again; tests that fail without any mutant
are asked nothing, named at the end and counted. Prints a line for each mutant that survives; all figures go to
`--json`. Mutants listed as equivalent, and kinds of code in which a fault changes nothing (left_out.py), are not drawn; both
are counted. `--named` plays the faults of named.toml instead of a sample, those of the areas or modules asked for. `--module`
asks the mutants of one module of its own tests alone: less than its area would kill, in seconds; `--own` leaves out the last
round. `--keep NAME` puts the sample, or with `named` the named faults, into docs/figures.json, for `make docs`.
Exit code 1 where fewer than `--wanted` per cent are killed, 2 where a list no longer fits the code.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.mutation import exclusions
from tests.mutation.areas import ROOT, SUITES, area_of, is_under, modules, own_tests
from tests.mutation.coverage_map import kept_map
from tests.mutation.exclusions import keep
from tests.mutation.fates import Fate, Round, fates_of, used
from tests.mutation.mutants import BY_TEXT, LISTED, Mutant, left_out, mutants
from tests.mutation.selection import own_suites, suites_of, whole_suites
from tests.mutation.session import Limits

_PROCESSES: Final = 2
_SECONDS: Final = 30.0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Sample mutants, run tests on each, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=_PROCESSES)
    parser.add_argument("--area", action="append", choices=sorted(SUITES), help="only these; all where none is named")
    parser.add_argument("--module", action="append", help="only this module, asked of the tests at its own path alone")
    parser.add_argument(
        "--own",
        action="store_true",
        help="ask each mutant of the tests at its module's path and of whole results alone",
    )
    parser.add_argument("--named", action="store_true", help="the faults of named.toml")
    parser.add_argument(
        "--tests", type=int, default=0, help="ask so many tests at most of each mutant in a round, the cheapest; 0: all"
    )
    parser.add_argument(
        "--seconds", type=float, default=_SECONDS, help="ask tests of so many seconds of each mutant in a round; 0: all"
    )
    parser.add_argument("--wanted", type=int, default=0, help="per cent")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", metavar="NAME", help="put the sample into docs/figures.json as `mutants-NAME`")
    arguments = parser.parse_args()
    own = [own_tests(path) for path in arguments.module or ()]
    problems = [*exclusions.stale(exclusions.entries()), *exclusions.stale_named(exclusions.named())]
    problems += [f"--module: there are no tests at {path}" for path in own if not (ROOT / path).is_file()]
    if problems:
        _say("\n".join(problems))
        return 2
    areas = arguments.area or sorted(SUITES)
    paths = arguments.module or [path for area in areas for path in modules(area)]
    chosen = faults(areas, arguments.module) if arguments.named else sample(paths, arguments.sample, arguments.seed)
    began, started = time.monotonic(), datetime.now(UTC)
    rounds = (
        (lambda _: own,)
        if own
        else (own_suites, whole_suites)
        if arguments.own
        else (own_suites, whole_suites, suites_of)
    )
    limits = Limits(arguments.tests or None, arguments.seconds or None)
    fates = []
    for fate in fates_of(chosen, rounds, arguments.processes, limits):
        fates.append(fate)
        if not fate.killer:
            _say(f"survived: {fate.mutant.path}:{fate.mutant.line}: {what(fate.mutant)} ({_asked(fate)})")
    failing = failing_without(chosen, rounds)
    summary = summarised(fates, arguments.seed) | {"failWithoutMutant": len(failing)}
    if arguments.named:
        summary["named"] = noticed(fates, exclusions.named())
    else:
        summary |= {"leftOut": not_drawn(paths), "ownTestsAlone": arguments.own}
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(summary, indent=2))
    status = int(summary["percent"] < arguments.wanted)
    if arguments.keep:
        said = _said(sys.argv[1:], left_out_options=("--keep", "--json"))
        keep(arguments.keep, summary, command=said, began=started, ended=datetime.now(UTC), exit_code=status)
    for area, score in summary["areas"].items():
        _say(f"{area}: {score['killed']} of {score['mutants']} killed")
    if summary["notAskedOfAll"]:
        _say(f"{summary['notAskedOfAll']} survivors were not asked of all tests that run them: more take too long")
    for test in failing:
        _say(f"fails without any mutant, so it was asked nothing: {test}")
    of = "named faults" if arguments.named else f"seed {arguments.seed}"
    taken = f"{of}, {time.monotonic() - began:.0f} s, {used():.0f} s of a processor"
    _say(f"{summary['killed']} of {summary['mutants']} killed ({summary['percent']} %), {taken}")
    return status


def failing_without(chosen: Sequence[Mutant], rounds: Sequence[Round]) -> list[str]:
    """The tests of these rounds that failed while lines were noted, in this run or in one before it."""
    suites = {suite for suites_of_round in rounds for suite in suites_of_round(chosen)}
    known = kept_map()
    return known.failing(test for test in known.names() if is_under(test, suites))


def _asked(fate: Fate) -> str:
    """How many tests a survivor was asked of."""
    if not fate.asked + fate.left_out:
        return "no test runs it"
    return f"{fate.asked} tests that run it pass" + f", {fate.left_out} more take too long" * bool(fate.left_out)


def _said(words: Sequence[str], left_out_options: Collection[str]) -> list[str]:
    """The arguments without these options and their values: where somebody keeps a file is no part of a figure."""
    pairs = zip(("", *words), words, strict=False)
    return [word for before, word in pairs if word not in left_out_options and before not in left_out_options]


def faults(areas: Sequence[str], paths: Sequence[str] | None = None) -> list[Mutant]:
    """The faults of named.toml that lie in these areas, and in these modules if any are named."""
    found = [fault for fault in exclusions.as_mutants(exclusions.named()) if area_of(fault.path) in areas]
    return [fault for fault in found if paths is None or fault.path in paths]


def sample(paths: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """A sample of all mutants of these modules that can be killed, the same for a seed, in the order of the modules."""
    every = [mutant for path in paths for mutant in mutants(path, (ROOT / path).read_text())]
    draw = Random(seed)  # noqa: S311 - a sample
    listed = exclusions.entries()
    chosen: list[Mutant] = []
    for mutant in draw.sample(every, len(every)):
        if len(chosen) == count:
            break
        chosen += exclusions.without([mutant], listed)
    return sorted(chosen)


def not_drawn(paths: Sequence[str]) -> dict[str, dict[str, int]]:
    """Area → kind of code that is left out → how many faults it would have; those listed one by one are a kind as well."""
    found: dict[str, Counter[str]] = {}
    for path in paths:
        found.setdefault(area_of(path), Counter()).update(left_out(path, (ROOT / path).read_text()))
    for entry in exclusions.entries():
        if entry.file in paths:
            found[area_of(entry.file)][LISTED] += 1
    return {area: dict(sorted(counts.items())) for area, counts in sorted(found.items())}


def what(mutant: Mutant) -> str:
    """The fault in words: the code before and after."""
    if mutant.column == BY_TEXT:
        return " ".join(f"`{mutant.was.strip()}` → `{mutant.now.strip()}`".split())
    return f"`{mutant.was}` → `{mutant.now}`"


def summarised(fates: Sequence[Fate], seed: int) -> dict[str, Any]:
    """The score by area, and the survivors."""
    made, dead = Counter(f.area for f in fates), Counter(f.area for f in fates if f.killer)
    killed = sum(dead.values())
    return {
        "seed": seed,
        "mutants": len(fates),
        "killed": killed,
        "percent": 100 * killed // max(len(fates), 1),
        "notAskedOfAll": sum(not fate.killer and fate.left_out > 0 for fate in fates),
        "areas": {area: {"mutants": made[area], "killed": dead[area]} for area in sorted(made)},
        "survivors": [
            {"file": fate.mutant.path, "line": fate.mutant.line, "what": what(fate.mutant), "notAsked": fate.left_out}
            for fate in sorted(fates, key=lambda fate: fate.mutant)
            if not fate.killer
        ],
        "killers": {
            f"{fate.mutant.path}:{fate.mutant.line}: {what(fate.mutant)}": fate.killer for fate in fates if fate.killer
        },
    }


def noticed(fates: Sequence[Fate], listed: Sequence[exclusions.Named]) -> list[dict[str, str]]:
    """What each named fault takes away, where, and the test that noticed it; empty for none."""
    killers = {(fate.mutant.path, fate.mutant.was, fate.mutant.now): fate.killer for fate in fates}
    keys = ((one, (one.file, one.was, one.now)) for one in listed)
    return [{"file": one.file, "what": one.what, "killer": killers[key]} for one, key in keys if key in killers]


if __name__ == "__main__":
    sys.exit(main())
