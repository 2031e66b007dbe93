"""Commands about recorded decisions: `log`, `replay`, `what-if`, `report`, `shadow`, `forecast`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli.arguments import add_all, add_ledger, add_output, add_recorded_period, add_since, own_code, refuse_role_alone
from cli.cluster.organisation import distinct_names, unreadable_text
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output
from cli.terminal.style import write_stdout

if TYPE_CHECKING:
    from cli.ledger.entries import LedgerStorage
    from core.counterfactual.overrides import Overrides
    from core.forecast import ForecastRules, Ramp
    from core.ledger.entry import LogEntry
    from core.ledger.reading import DecisionKey, LedgerReader
    from core.model.snapshot import Snapshot


# `log`

_SHORT: Final = re.compile(r"\b(ip-[0-9-]+)\.[a-z0-9.-]+")
"""Shortens node names: they are long, and all of a cluster have the same suffix."""

_HEADINGS: Final[tuple[str, ...]] = ("TIME (UTC)", "ID", "WHAT", "WHY", "MOVES", "$/H", "STATE")
_NARROW: Final[tuple[str, ...]] = ("TIME (UTC)", "ID", "WHAT AND WHY", "$/H")

_LOG_EXAMPLES: Final = """examples:
  fleetwright log --cluster prod --since 24h
  fleetwright log --all --since 24h --acts --region eu-west-1,us-east-1
  fleetwright log --ledger s3://my-bucket --pod shop/cart-0
  fleetwright log --ledger build/ledger --node ip-10-0-0-4.ec2.internal -o json
"""


def configure_log(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _LOG_EXAMPLES
    add_ledger(parser)
    add_all(parser)
    add_since(parser)
    parser.add_argument("--pod", metavar="NAMESPACE/NAME", default="", help="only decisions about this pod")
    parser.add_argument("--node", metavar="NAME", default="", help="only decisions about this node or NodeClaim")
    parser.add_argument("--acts", action="store_true", help="only decisions that began something")
    add_output(parser)


def run_log(arguments: argparse.Namespace) -> int:
    """List decisions, the oldest first; negative if a cluster's ledger could not be read."""
    from cli.answers.plan import API_VERSION
    from cli.ledger.entries import opened_ledger, refuse_none

    refuse_role_alone(arguments)
    unreadable: list[dict[str, Any]] = []
    if arguments.all:
        installations, unreadable = _of_all(arguments)
    else:
        installations = _lines(opened_ledger(arguments), arguments, refuse_none)
    document = {"apiVersion": API_VERSION, "kind": "Log", "entries": installations, "unreadable": unreadable}
    output.show(document, arguments.output, log_table)
    return NEGATIVE if unreadable else DONE


def _lines(
    place: LedgerStorage,
    arguments: argparse.Namespace,
    checked: Callable[[Sequence[DecisionKey], LedgerStorage, argparse.Namespace], None] = lambda *_: None,
) -> list[dict[str, Any]]:
    from cli.ledger.entries import entries, find, outcomes
    from core.ledger.entry import by_decision, concerns, log_entry

    keys = find(place, arguments)
    checked(keys, place, arguments)
    ended = by_decision(outcomes(place, arguments))
    return [
        _entry(line)
        for _, entry in entries(place, keys)
        if (entry.parts or not arguments.acts)
        and concerns(line := log_entry(entry, ended.get(entry.id, ())), pod=arguments.pod, node=arguments.node)
    ]


def _of_all(arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the lines of every cluster in order of time, and what could not be read."""
    from cli.cluster.organisation import FoundCluster, find_organisation
    from cli.ledger.entries import ledger_of_bucket

    if arguments.cluster or arguments.ledger:
        raise InputError("--all reads every cluster: leave out --cluster and --ledger")

    def lines(cluster: FoundCluster) -> list[dict[str, Any]]:
        settings = cluster.installation().settings
        cluster_arguments = argparse.Namespace(**{**vars(arguments), "cluster": settings.cluster_name})
        place = ledger_of_bucket(cluster.site.session, settings.bucket_name)
        return [line | cluster.where() for line in _lines(place, cluster_arguments)]

    answers, failed = find_organisation(arguments).ask(lines)
    merged = [line for _, cluster_arguments in answers for line in cluster_arguments]
    merged.sort(key=lambda line: (line["time"], line["cluster"], line["id"]))
    return merged, [failure.document() for failure in failed]


def log_table(document: dict[str, Any]) -> str:
    """Format the log for people, with the total."""
    rows: list[tuple[object, ...]] = [_row(line) for line in document["entries"]]
    if not rows:
        nothing = "no such decision; pods are named NAMESPACE/NAME, and --since looks further back"
        return "\n\n".join(filter(None, [nothing, unreadable_text(document["unreadable"])]))
    prices = [line["hourly"] for line in document["entries"]]
    moves = sum(line["moves"] for line in document["entries"])
    launched, saved = sum(price for price in prices if price > 0), -sum(price for price in prices if price < 0)
    words = (
        f"{output.counted(len(rows), 'decision')}: ${launched:.4f} launched and ${saved:.4f} saved an hour, with "
        f"{output.counted(moves, 'moved pod')}"
    )
    headings = _NARROW if _is_narrow() else _HEADINGS
    if any("cluster" in line for line in document["entries"]):
        headings = ("CLUSTER", *headings)
        rows = [(name, *row) for name, row in zip(distinct_names(document["entries"]), rows, strict=True)]
    parts = [output.table(headings, rows), words, unreadable_text(document["unreadable"])]
    return "\n\n".join(filter(None, parts))


def _row(line: dict[str, Any]) -> tuple[object, ...]:
    time, what = str(line["time"])[5:19].replace("T", " "), _SHORT.sub(r"\1", line["what"])
    if not _is_narrow():
        return time, line["id"], what, line["reason"], line["moves"], line["hourly"], line["state"]
    moves = f", {output.counted(line['moves'], 'moved pod')}" if line["moves"] else ""
    return time, line["id"], f"{what} [{line['reason']}]{moves}, {line['state']}", line["hourly"]


def _is_narrow() -> bool:
    """Whether seven columns would leave too little for what was decided."""
    return output.line_width() < output.WIDTH_MAX


def _entry(line: LogEntry) -> dict[str, Any]:
    from core.model.values.quantity import dollars

    return {
        "id": line.id,
        "time": output.rfc3339(line.time),
        "function": line.function,
        "what": line.what,
        "reason": line.reason,
        "objects": list(line.objects),
        "moves": line.moves,
        "hourly": dollars(line.hourly),
        "state": line.state,
    }


# `replay`


_REPLAY_EXAMPLES: Final = """examples:
  fleetwright replay --cluster prod 81c04f2b6d
  fleetwright replay --ledger s3://my-bucket --cluster prod --since 30d -o json
  fleetwright replay --ledger build/ledger
"""


def configure_replay(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _REPLAY_EXAMPLES
    parser.add_argument("ids", metavar="ID", nargs="*", help="decisions, by id or by how it begins (default: all)")
    add_ledger(parser)
    add_since(parser)
    add_output(parser)


def run_replay(arguments: argparse.Namespace) -> int:
    """Repeat the decisions. The answer is negative unless every decision gives the same bytes."""
    from cli.answers.plan import API_VERSION
    from cli.ledger.entries import find, opened_ledger, refuse_none
    from cli.terminal.style import progress
    from core.ledger.reading import LedgerReader

    place = opened_ledger(arguments)
    keys = find(place, arguments, arguments.ids)
    refuse_none(keys, place, arguments)
    reader = LedgerReader(place.get)
    different, unreadable = list[dict[str, Any]](), list[dict[str, Any]]()
    with progress("deciding again", len(keys)) as steps:
        for key in steps.over(keys):
            _replay(reader, key, different, unreadable)
    document = {
        "apiVersion": API_VERSION,
        "kind": "Replay",
        "code": own_code(),
        "decisions": len(keys),
        "equal": len(keys) - len(different) - len(unreadable),
        "different": different,
        "unreadable": unreadable,
    }
    output.show(document, arguments.output, replay_table)
    return NEGATIVE if different or unreadable else DONE


def replay_table(document: dict[str, Any]) -> str:
    """Format the answer for people."""
    parts = [f"{document['equal']} of {document['decisions']} decisions are the same, byte for byte"]
    for difference in document["different"]:
        release = f"version {difference['version']}{_build(difference['code'], document['code'])}"
        lines = [f"{difference['id']} ({difference['function']}, {difference['time']}, {release}) is different:"]
        parts.append("\n".join([*lines, *(f"  {line}" for line in difference["differences"])]))
    parts += [f"{difference['id']} cannot be read: {difference['problem']}" for difference in document["unreadable"]]
    return output.wrapped("\n\n".join(parts))


def _build(decided_by: str | None, here: str) -> str:
    """Describe whether the same code decided: different code may decide differently, equal code must not."""
    if not decided_by:
        return ""
    if decided_by == here:
        return f", the code that runs here, {here}: report this"
    return f", code {decided_by}; here runs {here}: to repeat it, use the build that was deployed then"


def _replay(
    reader: LedgerReader,
    key: DecisionKey,
    different: list[dict[str, Any]],
    unreadable: list[dict[str, Any]],
) -> None:
    from core.errors import InvalidInputError
    from core.interpreter import collector_paused
    from core.ledger.reading import UnknownFunctionError, decided_again, differences

    try:
        entry, raw = reader.entry(key.key)
        documents = reader.documents(entry, raw)
        snapshot = reader.snapshot(entry, documents)
    except InvalidInputError as error:
        unreadable.append({"id": key.id, "problem": str(error)})
        return
    try:
        with collector_paused():
            again = decided_again(entry, snapshot)
    except UnknownFunctionError as error:  # of a later release
        unreadable.append({"id": key.id, "problem": str(error)})
        return
    if again != documents.plan:
        different.append(
            {
                "id": entry.id,
                "time": output.rfc3339(entry.at),
                "function": entry.function,
                "version": entry.version,
                "code": entry.code or None,
                "differences": differences(documents.plan, again),
            }
        )


# `what-if`


FLEETWRIGHT: Final = "fleetwright"
KARPENTER: Final = "karpenter"
NONE: Final = "none"

_WHAT_IF_EXAMPLES: Final = """examples:
  fleetwright what-if --cluster prod --from 7d -f change.yaml
  fleetwright what-if --ledger build/ledger --policy none
  fleetwright what-if --ledger build/ledger --catalog prices.json -o markdown
"""


def configure_what_if(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _WHAT_IF_EXAMPLES
    add_recorded_period(parser)
    shared.add_filenames(
        parser, "NodePools, NodeOverlays and PodDisruptionBudgets that replace the recorded ones of the same names"
    )
    parser.add_argument("--catalog", metavar="FILE", help="other instance types and prices (JSON, also gzipped)")
    parser.add_argument(
        "--policy",
        choices=(FLEETWRIGHT, KARPENTER, NONE),
        default=FLEETWRIGHT,
        help="karpenter: only its own moves; none: no node is removed (default: %(default)s)",
    )
    parser.add_argument(
        "-o", "--output", choices=("table", "markdown", "json", "yaml"), default="table", help="form of the answer"
    )
    shared.add_color(parser)


def run_what_if(arguments: argparse.Namespace) -> int:
    """Simulate the period twice: with the recorded settings, and with the requested ones."""
    from cli.answers.periods import pace_warnings, what_if_document, what_if_markdown, what_if_table
    from cli.inputs import warn
    from cli.ledger.entries import PeriodReader, opened_ledger
    from cli.ledger.parallel_simulation import simulated_twice
    from core.counterfactual.simulation import SimulationRules
    from core.interpreter import collector_paused

    overrides = _overrides(arguments)
    period = PeriodReader(opened_ledger(arguments), arguments)
    is_other = bool(arguments.files or arguments.catalog or arguments.policy != FLEETWRIGHT)
    if not is_other:
        raise InputError("nothing is changed", hint="give manifests with -f, prices with --catalog or a --policy")
    after = SimulationRules(
        change=overrides.applied_to,
        consolidates=arguments.policy != NONE,
        karpenter_moves_only=arguments.policy == KARPENTER,
    )
    if overrides.node_pools:
        for warning in pace_warnings(overrides.node_pools, next(iter(period)).node_pools, period.until - period.since):
            warn(warning)
    with collector_paused():
        recorded, (before, changed) = simulated_twice(period, SimulationRules(), after)
    document = what_if_document(recorded, before, changed)
    if arguments.output == "markdown":
        write_stdout(what_if_markdown(document))
    else:
        output.show(document, arguments.output, what_if_table)
    return DONE


def _overrides(arguments: argparse.Namespace) -> Overrides:
    """Return the changes that the arguments request. Raises InputError."""
    from cli.inputs import read_catalogue, warn
    from cli.manifests.inventory import take_inventory
    from cli.manifests.reading import read
    from core.counterfactual.overrides import Overrides
    from core.manifests.assemble import assemble
    from core.manifests.wire import resources as kinds
    from core.model.catalogue import Catalogue
    from core.model.snapshot import Options

    supported = (kinds.NODE_POOLS, kinds.NODE_OVERLAYS, kinds.POD_DISRUPTION_BUDGETS)
    inventory = take_inventory(read(arguments.files)) if arguments.files else None
    catalogue = read_catalogue(arguments.catalog) if arguments.catalog else None
    if inventory is None:
        return Overrides(catalogue=catalogue)
    if inventory.set_aside:
        aside = inventory.set_aside[0]
        raise InputError(f"{aside.object} cannot be used: {aside.message}", source="-f")
    if not any(inventory.objects.get(kind) for kind in supported):
        raise InputError("there is no NodePool, NodeOverlay or PodDisruptionBudget in the files", source="-f")
    others = sorted(kind.kind for kind in inventory.objects if kind not in supported)
    if others:
        warn(f"ignored: {', '.join(others)}; only NodePools, NodeOverlays and PodDisruptionBudgets count")
    snapshot, problems = assemble(
        {kind: inventory.objects.get(kind, []) for kind in supported},
        now=datetime.now(UTC),
        catalogue=Catalogue(),
        options=Options(),
    )
    for problem in problems:
        if not problem.is_warning:
            raise InputError(str(problem), source="-f")
    return Overrides(
        node_pools=snapshot.node_pools, overlays=snapshot.overlays, budgets=snapshot.budgets, catalogue=catalogue
    )


# `report`


_BY: Final = ("nodepool", "namespace", "capacity-type", "instance-type", "zone")
_REPORT_FORMS: Final = ("table", "markdown", "html", "csv", "json", "yaml")

_REPORT_EXAMPLES: Final = """examples:
  fleetwright report --cluster prod --month 2026-11 --by nodepool,namespace -o html
  fleetwright report --ledger s3://my-bucket --cluster prod --from 7d -o markdown
  fleetwright report --ledger build/ledger -o csv
"""


def configure_report(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _REPORT_EXAMPLES
    add_recorded_period(parser)
    parser.add_argument("--month", type=_month, metavar="YYYY-MM", help="that month (UTC), in place of --from and --to")
    parser.add_argument(
        "--by",
        type=_columns,
        default=("nodepool", "namespace"),
        metavar="COLUMNS",
        help=f"columns to sum dollars by, separated by commas: {', '.join(_BY)} (default: nodepool,namespace)",
    )
    parser.add_argument("--no-baseline", action="store_true", help="without the baseline that has to be simulated")
    parser.add_argument(
        "-o", "--output", choices=_REPORT_FORMS, default="table", help="form of the answer (default: %(default)s)"
    )
    shared.add_color(parser)


def run_report(arguments: argparse.Namespace) -> int:
    """Compute the report and print it in the requested format."""
    from cli.answers.difference import report_csv, report_html, report_markdown, report_table
    from cli.ledger.entries import report_of_period
    from cli.terminal.style import progress
    from core.interpreter import collector_paused

    if arguments.month is not None and (arguments.since is not None or arguments.until is not None):
        raise InputError("--month is a whole month: leave out --from and --to")
    if arguments.month is not None:
        arguments.since, arguments.until = arguments.month
    with progress("reading the ledger") as steps, collector_paused():
        document = report_of_period(arguments, steps)
    written = {"markdown": report_markdown, "html": report_html, "csv": report_csv}.get(arguments.output)
    if written is not None:
        write_stdout(written(document), end="")
    else:
        output.show(document, arguments.output, report_table)
    return DONE


def _month(text: str) -> tuple[datetime, datetime]:
    """Parse a month to its first and last moment; for argparse."""
    try:
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a month such as 2026-11") from None
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first, min(following, max(first, datetime.now(UTC)))


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in _BY]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"{', '.join(unknown) or text!r} is none of {', '.join(_BY)}")
    return names


# `shadow`


_SHADOW_FORMS: Final = ("table", "markdown", "html", "json", "yaml")

_SHADOW_EXAMPLES: Final = """examples:
  fleetwright shadow report --cluster prod --since 7d
  fleetwright shadow report --ledger s3://my-bucket --cluster prod --since 7d -o html > shadow.html
  fleetwright shadow report --ledger build/ledger -o json
"""


def configure_shadow(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _SHADOW_EXAMPLES
    parser.add_argument(
        "what", choices=("report",), metavar="report", help="report: simulates the recorded period with our decisions"
    )
    add_recorded_period(parser, begins="--since", ends="--until")
    parser.add_argument(
        "-o", "--output", choices=_SHADOW_FORMS, default="table", help="form of the answer (default: %(default)s)"
    )
    shared.add_color(parser)


def run_shadow(arguments: argparse.Namespace) -> int:
    """Simulate the recorded period with our decisions, and print both side by side."""
    from cli.answers.difference import shadow_html, shadow_markdown, shadow_table
    from cli.ledger.entries import shadow_report
    from cli.terminal.style import progress
    from core.interpreter import collector_paused

    with progress("simulating what was recorded") as steps, collector_paused():
        document = shadow_report(arguments, steps)
    written = {"markdown": shadow_markdown, "html": shadow_html}.get(arguments.output)
    if written is not None:
        write_stdout(written(document), end="")
    else:
        output.show(document, arguments.output, shadow_table)
    return DONE


# `forecast`


_FORECAST_EXAMPLES: Final = """examples:
  fleetwright forecast --cluster prod --from 28d --time-zone Europe/Berlin
  fleetwright forecast --ledger build/ledger --except 2026-12-24,2026-12-25 -o json
  fleetwright forecast --cluster prod --from 28d --dollars-per-hour 3 --calendar > forecast.yaml
"""


def configure_forecast(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _FORECAST_EXAMPLES
    add_recorded_period(parser)
    parser.add_argument(
        "--time-zone", default="UTC", metavar="ZONE", help="IANA zone of the hours (default: %(default)s)"
    )
    parser.add_argument(
        "--except", dest="except_dates", type=_dates, default=(), metavar="DATES", help="holidays, by commas"
    )
    parser.add_argument(
        "--percentile", type=_percent, default=90, metavar="N", help="room for it (default: %(default)s)"
    )
    parser.add_argument(
        "--slot",
        type=int,
        choices=(5, 10, 15, 30, 60),
        default=5,
        metavar="5|10|15|30|60",
        help="minutes (default: %(default)s)",
    )
    help_text = "how much of the room must be used; other ramps are left out (default: %(default)s)"
    parser.add_argument("--used", type=_percent, default=50, metavar="PERCENT", help=help_text)
    parser.add_argument(
        "--dollars-per-hour", metavar="D", help="the most that the room of one NodePool may cost an hour"
    )
    parser.add_argument("--calendar", action="store_true", help="print Calendars that keep the room, for two weeks")
    add_output(parser)


def run_forecast(arguments: argparse.Namespace) -> int:
    """Print the recurring ramps with their evidence, or the Calendars that keep room for them."""
    from cli.answers.periods import forecast_document, forecast_table
    from cli.ledger.entries import PeriodReader, opened_ledger
    from cli.terminal.style import progress
    from core.calendars import zone
    from core.forecast import ramps
    from core.interpreter import collector_paused
    from core.pods import PodLives

    rules = _forecast_rules(arguments)
    zone(rules.time_zone)
    period = PeriodReader(opened_ledger(arguments), arguments)
    seen, last = PodLives(), None
    with progress("reading the ledger") as steps, collector_paused():
        steps.total = len(period)
        for last in steps.over(period):
            seen.see(last)
    recurring = [_priced(ramp, last, rules) for ramp in ramps(seen.lives, period.since, period.until, rules)]
    document = forecast_document(recurring, rules, period.since, period.until)
    if arguments.calendar:
        write_stdout("---\n".join(output.as_yaml(calendar) for calendar in document["calendars"]), end="")
    else:
        output.show(document, arguments.output, forecast_table)
    return DONE


def _priced(ramp: Ramp, last: Snapshot | None, rules: ForecastRules) -> Ramp:
    from core.forecast import capped, priced

    way = priced(last, ramp) if last is not None else None
    return ramp if way is None else capped(way, way.hourly, rules)


def _forecast_rules(arguments: argparse.Namespace) -> ForecastRules:
    from core.forecast import ForecastRules
    from core.model.values.quantity import nanodollars

    most = None if arguments.dollars_per_hour is None else nanodollars(arguments.dollars_per_hour)
    if most is not None and most <= 0:
        raise InputError(f"{arguments.dollars_per_hour!r} is not an amount above 0", source="--dollars-per-hour")
    return ForecastRules(
        time_zone=arguments.time_zone,
        slot=timedelta(minutes=arguments.slot),
        percentile=arguments.percentile,
        used_min_percent=arguments.used,
        except_dates=arguments.except_dates,
        nanodollars_per_hour=most,
    )


def _dates(text: str) -> tuple[str, ...]:
    """Parse dates; for argparse."""
    try:
        return tuple(sorted({date.fromisoformat(part.strip()).isoformat() for part in text.split(",")}))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of dates such as 2026-12-24,2026-12-25") from None


def _percent(text: str) -> int:
    """Parse a percentage; for argparse."""
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage from 1 to 100")
    return int(text)
