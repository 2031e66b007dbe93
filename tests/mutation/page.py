"""The sections of docs/engineering/what-is-proven.md on deliberate faults: the score by area, what is not drawn, the survivors.

A sample of all areas takes the place of all before it; the first one stays beside it, to compare with. A later sample of some
areas takes the place of its part.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.mutation.areas import own_tests
from tests.mutation.mutants import KINDS, LISTED

Step = Mapping[str, Any]
"""A step of the night that drew faults."""
Samples = Mapping[str, Step]
"""Area → the latest step that drew from it."""

_IMPORT: Final = "the import of "
"""What a killer begins with that could not be imported."""
_FORMERLY: Final = {"adapters/ledger": "lambdas/ledger", "adapters/observation": "lambdas/observation"}
"""Area → its name in the first sample, where it had another."""
WORDS: Final = Path(__file__).with_name("survivors.toml")


class Survivor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault of the kept samples that no test noticed.

    Attributes:
        file: The module, by its name then.
        what: The code before and after, as the sample has it.
        word: What comes of it.
    """

    file: str
    what: str
    word: str


def words() -> list[Survivor]:
    """What is said of the survivors.

    Raises:
        msgspec.ValidationError: If an entry lacks a field or has another.
    """
    return msgspec.convert(tomllib.loads(WORDS.read_text())["survivor"], list[Survivor])


def sections(steps: Sequence[Step], said: Sequence[Survivor]) -> Iterator[str]:
    """The sections, from the steps in the order in which they began."""
    shared = [step for step in steps if not step["figures"].get("ownTestsAlone")]
    whole = [number for number, step in enumerate(shared) if _is_whole(step)]
    first = shared[whole[0]] if len(whole) > 1 else None
    of_area = _latest(shared[whole[-1] if whole else 0 :])
    of_own = _latest([step for step in steps if step["figures"].get("ownTestsAlone")])
    if of_area:
        yield "## Faults that the tests of their area kill"
        where = "drawn by the seed, from the code of the commit, where folders have these names."
        yield f"{_sum(of_area)}, {where}{_by_own(of_area)}{_before(first)}"
        yield _scores(of_area, first)
    if of_own:
        yield "## Faults that the tests at their module's path kill by themselves"
        yield (
            f"{_sum(of_own)}: fewer than the tests of their area would, and other faults than those above (`--own`). The tests "
            "of [whole results](handbook/tests-and-benchmarks.md#whole-results) are asked as well; older commits have none."
        )
        yield _scores(of_own)
    yield from _left_out([*of_area.items(), *of_own.items()])
    yield from _survivors(of_area, "Those that survived the tests of their area", said)
    yield from _survivors(of_own, "Those that survived the tests at their module's path", said)


def _is_whole(step: Step) -> bool:
    """Whether a step drew from all areas."""
    return not {"--area", "--module"} & set(step["command"].split())


def _latest(steps: Sequence[Step]) -> dict[str, Step]:
    found: dict[str, Step] = {}
    for step in steps:
        found |= dict.fromkeys(step["figures"]["areas"], step)
    return found


def _by_own(of_area: Samples) -> str:
    """How many the tests at the module's own path killed, where the samples say which test it was."""
    pairs = [
        (fault.partition(":")[0], test.partition("::")[0])
        for area, step in of_area.items()
        for fault, test in step["figures"].get("killers", {}).items()
        if fault.startswith(f"{area}/")
    ]
    if not pairs:
        return ""
    own = sum(test.removeprefix(_IMPORT) == own_tests(module) for module, test in pairs)
    return (
        f" A test at the module's own path, asked first of those that take as long, killed {own} of the {len(pairs)}."
    )


def _before(first: Step | None) -> str:
    if first is None:
        return ""
    figures = first["figures"]
    return (
        f" The first sample of all areas, seed {figures['seed']} at {first['commit'][:12]}, had {figures['killed']} of "
        f"{figures['mutants']} ({figures['percent']} %); the column *first* is its part of the area."
    )


def _sum(of_area: Samples) -> str:
    scores = [step["figures"]["areas"][area] for area, step in of_area.items()]
    made, killed = (sum(score[key] for score in scores) for key in ("mutants", "killed"))
    return f"{killed} of {made} ({100 * killed // max(made, 1)} %)"


def _scores(of_area: Samples, first: Step | None = None) -> str:
    head = ["area", "faults", "killed", "seed", "commit", *(["first"] if first else [])]
    rows = []
    for area, step in sorted(of_area.items()):
        figures = step["figures"]
        score = figures["areas"][area]
        cells = [f"`{area}`", score["mutants"], score["killed"], figures["seed"], step["commit"][:12]]
        rows.append([*cells, *([_score(first, area)] if first else [])])
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, ["---"] * len(head), *rows))


def _score(step: Step, area: str) -> str:
    areas = step["figures"]["areas"]
    name = area if area in areas else _FORMERLY.get(area, area)
    then = f", as `{name}`" * (name != area)
    return f"{areas[name]['killed']} of {areas[name]['mutants']}{then}" if name in areas else "none drawn"


def _survivors(of_area: Samples, title: str, said: Sequence[Survivor]) -> Iterator[str]:
    word_of = {(one.file, one.what): one.word for one in said}
    rows = [
        row
        for area, step in sorted(of_area.items())
        for row in step["figures"]["survivors"]
        if row["file"].startswith(f"{area}/")
    ]
    if rows:
        yield f"{title}; lines and names of modules are those of the commit of the area:"
        yield "\n".join(_survivor(row, word_of.get((row["file"], row["what"]), "")) for row in rows)


def _survivor(row: Mapping[str, Any], word: str) -> str:
    """A survivor, what is said of it, and whether more tests might have noticed it."""
    left = f" ({row['notAsked']} more tests run it, and take too long to be asked)" if row.get("notAsked") else ""
    return f"- `{row['file']}:{row['line']}`: {row['what']}{left}{f': {word}' if word else ''}"


def _left_out(of_area: Sequence[tuple[str, Step]]) -> Iterator[str]:
    """The faults that are not drawn, by the reason why nobody could see them; none for samples of before they were counted."""
    latest = {
        area: step["figures"]["leftOut"][area] for area, step in of_area if area in step["figures"].get("leftOut", {})
    }
    counts: Counter[str] = Counter()
    for kinds in latest.values():
        counts.update(kinds)
    if not counts:
        return
    yield "Faults that are not drawn, since no caller can see them, in the areas whose sample counts them:"
    rows = [f"| {kind.name} | {counts[kind.name]} | {kind.why} |" for kind in KINDS if counts[kind.name]]
    rows += [f"| one by one | {counts[LISTED]} | each with its reason in `tests/mutation/equivalent.toml` |"]
    yield "\n".join(("| kind of code | faults | why |", "| --- | --- | --- |", *rows))
