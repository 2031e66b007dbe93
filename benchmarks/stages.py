"""What each stage of the search for cheaper nodes earns: `python -m benchmarks.stages --only diverse-1k,services-500`.

Each stage is switched off in turn. Steps bound the search and no clock does, so costs are the same on every machine; seconds
are of the processor.
"""

from __future__ import annotations

import argparse
import inspect
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from benchmarks.cases import CASES, Case
from benchmarks.files import written
from benchmarks.measure import decoded
from core.api.objects import JsonObject
from core.interpreter import collector_paused
from core.model.plan import Cost
from core.model.snapshot import Snapshot
from core.packing import column_generation, heuristics, optimize, problem, relaxation
from core.packing.settings import DEFAULT_SETTINGS, SearchSettings
from core.scheduling import Planner, fleet_rows
from core.scheduling.context import SchedulingContext

NEVER: Final = 10**9
"""More nodes than any plan needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stage, and how a search goes without it.

    Attributes:
        without: Returns settings that switch it off.
        parts: The code that nothing else uses.
    """

    name: str
    without: Callable[[SearchSettings], SearchSettings]
    parts: Sequence[Callable[..., object]]

    @property
    def lines(self) -> int:
        """The lines of its code."""
        return sum(len(inspect.getsourcelines(part)[0]) for part in self.parts)


STAGES: Final = (
    Stage(
        name="rounding",
        without=lambda s: replace(
            s, stages=replace(s.stages, roundings_sure=0), rounding=replace(s.rounding, cuts_max=0)
        ),
        parts=(heuristics.cuts, heuristics.guided_rounding, heuristics._whole_pods, heuristics._spread_evenly),  # noqa: SLF001 - their lines are counted
    ),
    Stage(
        name="two-type rounding",
        without=lambda s: replace(s, two_type=replace(s.two_type, pairs_rounded_max=0)),
        parts=(heuristics.two_type_packings, heuristics._pairs),  # noqa: SLF001
    ),
    Stage(
        name="columns and dives",
        without=lambda s: replace(s, stages=replace(s.stages, coarse_pods_per_machine_max=0)),
        parts=(optimize.Diving, column_generation.ColumnGeneration),
    ),
    Stage(
        name="beam pricing",
        without=lambda s: replace(s, diving=replace(s.diving, beam_items_max=0)),
        parts=(column_generation.BeamPricing,),
    ),
    Stage(
        name="best mix of few machines",
        without=lambda s: replace(s, few_machines=replace(s.few_machines, machines_max=-1)),
        parts=(heuristics.few_machines, heuristics.placed, heuristics._Places, problem.whole_machines),  # noqa: SLF001
    ),
    Stage(
        name="whole columns",
        without=lambda s: replace(s, diving=replace(s.diving, combinations_max=0, whole_pods_max=0)),
        parts=(optimize.Diving._whole_columns,),  # noqa: SLF001
    ),
    Stage(
        name="bundles",
        without=lambda s: replace(s, launch_flexibility=replace(s.launch_flexibility, machines_min=NEVER)),
        parts=(relaxation.bundled, relaxation._bundle_capacity),  # noqa: SLF001
    ),
    Stage(
        name="loads of other zones",
        without=lambda s: replace(s, large_zones=replace(s.large_zones, machines_min=NEVER)),
        parts=(relaxation.prepared_like, relaxation.at_prices_of),
    ),
    Stage(
        name="bound of whole machines",
        without=lambda s: replace(s, whole_machine_bound=replace(s.whole_machine_bound, machines_max=0)),
        parts=(fleet_rows._ComponentBound._of_whole_machines,),  # noqa: SLF001
    ),
    Stage(
        name="bound in whole steps",
        without=lambda s: replace(s, stepped_bound=replace(s.stepped_bound, requests_max=0)),
        parts=(relaxation.stepped, relaxation._steps),  # noqa: SLF001
    ),
)


def main() -> None:
    """Print a line for each input and stage, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="diverse-1k,lognormal-1k,skewed-1k,services-500,services-2k,openb-cpu")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the public data")
    parser.add_argument("--json", type=Path, default=Path("build/stages.json"))
    arguments = parser.parse_args()
    names = arguments.only.split(",")
    rows: list[JsonObject] = []
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    for case in (case for case in CASES if case.name in names):
        if case.missing(arguments.data):
            print(f"{case.name}: {case.missing(arguments.data)}")
            continue
        rows += measured(case, arguments.data)
        document = {"lines": {stage.name: stage.lines for stage in STAGES}, "runs": rows}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def measured(case: Case, data: Path) -> list[JsonObject]:
    """Return the plan with all stages, and one plan for each stage that is left out."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot = decoded(written(case.make(data), Path(folder)))
    full_cost, seconds = _planned(snapshot, DEFAULT_SETTINGS)
    rows = [_row(case, "", full_cost, seconds, full_cost, seconds)]
    for stage in STAGES:
        cost, took = _planned(snapshot, stage.without(DEFAULT_SETTINGS))
        rows.append(_row(case, stage.name, cost, took, full_cost, seconds))
    return rows


def _planned(snapshot: Snapshot, settings: SearchSettings) -> tuple[Cost, float]:
    began = time.process_time()
    with collector_paused():
        plan = Planner(snapshot, SchedulingContext(snapshot), search=settings).plan(lambda: 0.0)
    return plan.cost, time.process_time() - began


def _row(case: Case, without: str, cost: Cost, seconds: float, full_cost: Cost, full_seconds: float) -> JsonObject:
    row = {
        "case": case.name,
        "without": without,
        "cost": cost.hourly,
        "lowerBound": cost.lower_bound,
        "dearer": round(cost.hourly / full_cost.hourly - 1, 6),
        "processorSeconds": round(seconds, 3),
        "secondsRatio": round(seconds / full_seconds, 2),
    }
    print(
        f"{case.name:16}{without or 'all stages':26}{cost.hourly / 1e9:12.4f}{row['dearer']:+10.3%}{seconds:8.2f} s"
        f"  bound {(cost.lower_bound or 0) / 1e9:.4f}",
        flush=True,
    )
    return row


if __name__ == "__main__":
    main()
