"""Arguments that several commands share, and the decision options built from them."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import core
from cli.errors import InputError
from cli.terminal.output import FORMS, JSONPATH, wrapped
from cli.terminal.style import AUTO, CHOICES, style
from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.workloads import EXPANDED_MAX
from core.model.pod import TopologySpread
from core.model.snapshot import (
    BALANCED_MOVES,
    BEST_EFFORT,
    GATES,
    IGNORE,
    LEAST_ALLOCATED,
    RESPECT,
    STRICT,
    VARIABLE,
    FeatureGates,
    Options,
    parse_feature_gates,
)
from core.model.values.quantity import parse_duration
from core.model.values.quotas import SizingSettings, settings_from
from core.version import code_digest

REGION_DEFAULT: Final = "us-east-1"
TIME_BUDGET_SECONDS_DEFAULT: Final = 1.0


def add_files(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    """Add `-f`, which names the input; if it is optional, the default is the kubeconfig's cluster."""
    meaning = "a file, a folder (read recursively) or - for standard input; may be given again"
    add_filenames(parser, meaning, is_required=is_required)
    parser.add_argument("--allow-empty", action="store_true", help="accept input without any object")
    parser.add_argument("--helm", action="store_true", help="render the Helm charts in folders with `helm template`")
    parser.add_argument("--kustomize", action="store_true", help="render the kustomizations in folders with Kustomize")


def add_filenames(parser: argparse.ArgumentParser, meaning: str, *, is_required: bool = False) -> None:
    """Add `-f`, which may be given several times; `files` is empty without it."""
    parser.add_argument(
        "-f",
        "--filename",
        dest="files",
        metavar="PATH",
        action="append",
        required=is_required,
        default=[],
        help=meaning,
    )


def refuse_empty(arguments: argparse.Namespace, objects: int) -> None:
    """Stop if the input has no object: a successful answer about nothing would mislead.

    Raises:
        InputError: If the input has no object and `--allow-empty` is not given.
    """
    if not objects and not arguments.allow_empty:
        bare = [path for path in arguments.files or () if Path(path).is_dir() and not any(Path(path).rglob("*.[yj]*"))]
        problem = "the input has no object: is it the right file, and does the command before the pipe work?"
        if bare:
            problem = f"the input has no object: {bare[0]} has no file that ends in .yaml, .yml or .json"
        raise InputError(problem, hint="--allow-empty accepts an empty input")


def fetch_hint(region: str) -> str:
    """Return the commands that read today's prices of a region and use them."""
    file = f"{region}.json.gz"
    return f"run `fleetwright catalog fetch --region {region} --to {file}` and give --catalog {file}"


EVERY_DEFAULT: Final = 15
EVERY_MIN, EVERY_MAX = 2, 86_400
"""Seconds between two readings: each lists the cluster's nodes and pods."""


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add `--watch`: the command is repeated until Ctrl-C."""
    parser.add_argument(
        "--watch",
        type=seconds_between_readings,
        nargs="?",
        const=float(EVERY_DEFAULT),
        metavar="SECONDS",
        help=f"read again and answer again, until Ctrl-C; without SECONDS, every {EVERY_DEFAULT}",
    )


def seconds_between_readings(text: str) -> float:
    """Parse a time between two readings; for argparse."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not EVERY_MIN <= seconds <= EVERY_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from {EVERY_MIN} to {EVERY_MAX}")
    return seconds


def add_catalogue(parser: argparse.ArgumentParser) -> None:
    """Add the choice of catalogue."""
    parser.add_argument("--catalog", metavar="FILE", help="instance types and prices (JSON, also gzipped)")
    default = f"the one that Nodes and NodePools name, else {REGION_DEFAULT}"
    parser.add_argument("--region", help=f"region of the cluster, or of built-in prices (default: {default})")


def add_price_terms(parser: argparse.ArgumentParser) -> None:
    """Add the file of price terms."""
    parser.add_argument(
        "--price-terms", metavar="FILE", help="discounts, licences, public addresses and commitments (JSON)"
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add `-o`, the output format, and `--color`."""
    parser.add_argument(
        "-o",
        "--output",
        type=_form,
        default="table",
        metavar="|".join((*FORMS, "jsonpath=TEMPLATE")),
        help="form of the answer (default: %(default)s)",
    )
    add_color(parser)


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add `--color`."""
    parser.add_argument(
        "--color",
        choices=CHOICES,
        default=AUTO,
        help="auto: on a terminal, unless NO_COLOR is set (default: %(default)s)",
    )


def add_clock(parser: argparse.ArgumentParser, *, at: bool = True) -> None:
    """Add `--now`, and `--at` as its second name: calendars and budgets say what holds then."""
    names = ("--now", "--at") if at else ("--now",)
    parser.add_argument(*names, type=moment, metavar="RFC3339", help="fix the clock (default: the present)")


def add_decision(parser: argparse.ArgumentParser, *, at: bool = True) -> None:
    """Add the inputs of a decision besides the manifests; without `--at` where a command gives it another meaning."""
    add_catalogue(parser)
    add_price_terms(parser)
    parser.add_argument(
        "--max-pods",
        type=_count,
        default=EXPANDED_MAX,
        metavar="N",
        help="refuse input whose workloads, or CapacityBuffers, ask for more pods than this together (default: %(default)s)",
    )
    add_clock(parser, at=at)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="random seed (default: %(default)s)")
    parser.add_argument(
        "--time-budget",
        type=_seconds,
        default=TIME_BUDGET_SECONDS_DEFAULT,
        metavar="SECONDS",
        help="brake on the search for cheaper nodes, processor time; 0: take the first plan (default: %(default)s)",
    )
    parser.add_argument(
        "--improve-iterations",
        type=_count,
        metavar="N",
        help="bound the search by so many steps and no clock: the same input then gives the same bytes",
    )
    parser.add_argument(
        "--preference-policy",
        choices=(RESPECT, IGNORE),
        default=RESPECT,
        help="whether pods' preferences count (default: %(default)s)",
    )
    parser.add_argument(
        "--scheduler-config",
        metavar="FILE",
        help="default topology spread constraints and scoring strategy: Karpenter's scheduler-config, EKS's "
        "kubeSchedulerConfig or a KubeSchedulerConfiguration (YAML or JSON)",
    )
    parser.add_argument(
        "--min-values-policy",
        choices=(STRICT, BEST_EFFORT),
        default=STRICT,
        help="whether a NodePool's minValues may be undercut where they cannot be had (default: %(default)s)",
    )


def options_of(arguments: argparse.Namespace) -> Options:
    """Return the decision options from the arguments and the environment's FEATURE_GATES.

    Raises:
        InputError: If FEATURE_GATES or the scheduler's configuration cannot be read.
    """
    return Options(
        preference_policy=arguments.preference_policy,
        min_values_policy=arguments.min_values_policy,
        feature_gates=feature_gates(os.environ),
        default_spreads=_of_scheduler(arguments.scheduler_config)[0],
        scoring=_of_scheduler(arguments.scheduler_config)[1],
        karpenter_moves_only=getattr(arguments, "policy", "") == "karpenter",
        ignore_budgets=getattr(arguments, "ignore_budgets", False),
        improve_iterations=0 if arguments.time_budget == 0 else arguments.improve_iterations,
        moves=getattr(arguments, "moves", BALANCED_MOVES),
        move_price=getattr(arguments, "move_price", None),
        part_nodes=getattr(arguments, "part_nodes", None),
        seed=arguments.seed,
    )


def sizing_settings(environment: Mapping[str, str]) -> SizingSettings:
    """Return Karpenter's settings that size nodes: VM_MEMORY_OVERHEAD_PERCENT and RESERVED_ENIS, as the functions read them.

    Raises:
        InputError: If a value cannot be read.
    """
    enis = environment.get("RESERVED_ENIS") or "0"
    if not enis.isdecimal():
        raise InputError(f"{enis!r} is not a whole number", source="RESERVED_ENIS")
    share = environment.get("VM_MEMORY_OVERHEAD_PERCENT") or "0.075"
    try:
        return settings_from(vm_memory_overhead_percent=share, reserved_enis=int(enis))
    except InvalidInputError as error:
        raise InputError(error.problem, source=error.field) from error


def feature_gates(environment: Mapping[str, str]) -> FeatureGates:
    """Return the gates in FEATURE_GATES on top of the defaults; an unknown one is ignored with a warning.

    Raises:
        InputError: If an entry has another form.
    """
    try:
        parsed = parse_feature_gates(environment.get(VARIABLE, ""))
    except InvalidInputError as error:
        raise InputError(error.problem, source=VARIABLE) from error
    for name in parsed.unknown:
        near = difflib.get_close_matches(name, GATES)
        hint = f", did you mean {near[0]}?" if near else ""
        print(f"warning: {VARIABLE}: there is no gate {name!r} in this release{hint}", file=sys.stderr)
    return parsed.gates


def _of_scheduler(path: str | None) -> tuple[tuple[TopologySpread, ...], str]:
    """Return the constraints and the scoring strategy in a file with one document; kube-scheduler's without a file."""
    if path is None:
        return (), LEAST_ALLOCATED
    from cli.manifests.reading import parse, read_text
    from core.manifests.scheduler_config import default_spreads, scoring

    documents = [document.object for document in parse(read_text(path), path)]
    if len(documents) != 1:
        raise InputError(f"holds {len(documents)} documents instead of one", source=path)
    try:
        return default_spreads(documents[0]), scoring(documents[0])
    except InvalidInputError as error:
        raise InputError(str(error), source=path) from error


def _form(text: str) -> str:
    if text in FORMS or text.startswith(JSONPATH):
        return text
    near = difflib.get_close_matches(text, FORMS)
    meant = f", did you mean {near[0]}?" if near else f": one of {', '.join(FORMS)} and {JSONPATH}TEMPLATE"
    raise argparse.ArgumentTypeError(f"there is no form {text!r}{meant}")


def moment(text: str) -> datetime:
    """Parse an RFC 3339 time, in UTC; for argparse."""
    try:
        at = datetime.fromisoformat(text)
        in_utc = at.astimezone(UTC)
    except (ValueError, OverflowError):
        at = None
    if at is None or at.tzinfo is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time such as 2026-11-20T00:00:00Z")
    return in_utc


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of zero or more")
    return int(text)


# Arguments that select the cluster or installation to read, and the credentials.


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `--context`: the cluster to read if no file is given."""
    parser.add_argument(
        "--context", metavar="NAME", help="without -f: the kubeconfig's context to read (default: the current one)"
    )


def add_namespace(parser: argparse.ArgumentParser) -> None:
    """Add `--namespace`: whose pods the answer is about."""
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="answer for the pods of one namespace; the whole cluster is read"
    )


def add_installation(parser: argparse.ArgumentParser, *, is_required: bool = False) -> None:
    """Add `--cluster` and how to reach it; `--region` is the region's catalogue elsewhere and the cluster's region here."""
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        required=is_required,
        help="an EKS cluster that the functions manage: its claims, commands and brakes count, too",
    )
    add_access(parser)


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the options for AWS credentials and the stack's name."""
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="the profile of the AWS configuration (default: as for the AWS CLI)",
    )
    parser.add_argument(
        "--stack",
        metavar="NAME",
        help="with --cluster: its stack (default: the name that it is deployed under, fleetwright-CLUSTER)",
    )


def add_all(parser: argparse.ArgumentParser, which: Any = None) -> None:
    """Add `--all` (to the group `which` of options that exclude it) and `--role`."""
    text = (
        "every cluster with an installation in the account, and in those of --role; --region takes several with commas"
    )
    (which or parser).add_argument("--all", action="store_true", help=text)
    parser.add_argument(
        "--role",
        metavar="ARN",
        action="append",
        default=[],
        help="with --all: an IAM role that is assumed instead of using the credentials as they are; may be given again",
    )


def refuse_role_alone(arguments: argparse.Namespace) -> None:
    """Stop if `--role` is given without `--all`. Raises InputError."""
    if arguments.role and not arguments.all:
        raise InputError("--role is for --all", hint="--profile names the credentials for one cluster")


# Arguments that select a ledger, the permissions to read it, and a part of it.


SPAN: Final = "a time (RFC 3339), or a span back from now (24h, 30d)"


def add_ledger(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that select the ledger, and how to reach it in AWS."""
    kept = "where the ledger lies (default: the bucket in which the functions of --cluster keep it)"
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", help=kept)
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster's decisions")
    add_access(parser)
    parser.add_argument("--region", metavar="REGION", help="where clusters are (default: that of the credentials)")


def add_past(parser: argparse.ArgumentParser) -> None:
    """Add the options by which `explain` reads a ledger instead of a cluster."""
    kept = (
        "explain what a decision of this ledger saw (default: the present; with --at, --decision or --since the bucket in "
        "which the functions of --cluster keep theirs)"
    )
    parser.add_argument("--ledger", metavar="FOLDER|s3://BUCKET", help=kept)
    parser.add_argument("--decision", metavar="ID", help="which decision (default: the last one about it)")
    parser.add_argument(
        "--at",
        type=moment,
        metavar="RFC3339",
        help="the last decision about it up to that time; a later time, or any with -f: what would hold then by calendars",
    )
    add_since(parser)
    help_text = "an EKS cluster that the functions manage: as they see it; with a ledger, only its decisions"
    parser.add_argument("--cluster", metavar="NAME", help=help_text)


def add_since(parser: argparse.ArgumentParser) -> None:
    """Add `--since`: the time from which decisions count."""
    parser.add_argument("--since", type=since, metavar="T", help=SPAN)


def add_recorded_period(parser: argparse.ArgumentParser, begins: str = "--from", ends: str = "--to") -> None:
    """Add the arguments that select the ledger and the period to read."""
    add_ledger(parser)
    parser.add_argument(begins, dest="since", type=since, metavar="T", help=f"{SPAN}; default: the first record")
    parser.add_argument(ends, dest="until", type=since, metavar="T", help=f"{SPAN}; default: the last record")


def since(text: str) -> datetime:
    """Parse a moment, or a time span before now; for argparse."""
    number, unit = text[:-1], text[-1:]
    in_hours = f"{24 * int(number)}h" if unit == "d" and number.isdecimal() else text
    span = parse_duration(in_hours)
    if span is not None:
        return datetime.now(UTC) - span
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor a span such as 24h or 30d") from error


# Identifies the installed deciding code, in the form in which the ledger records it.


def own_code() -> str:
    """Return the digest of `core` as it is installed (`code_digest`)."""
    folder = Path(core.__file__).parent
    return code_digest({path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.py")})


# Bounds the search for cheaper nodes by the arguments.


_PATIENCE: Final = 4
"""Wall-clock limit as a multiple of processor time: on a busy machine the same work takes longer."""


_PRECISION: Final = 0.02
"""Seconds for which a measurement is reused: reading the processor time takes up to a millisecond, a search step little
more."""


TIME: Final = "time"


class TimeLimit:
    """Returns the elapsed share of a time budget, counted from its first call; 1 or more for all of it.

    Attributes:
        was_over: Whether time was over at any check, or too little of it was left for a stage, so that the plan may depend on
            the machine.
    """

    def __init__(self, seconds: float) -> None:
        self.was_over = False
        self._seconds = seconds
        self._began: tuple[float, float] | None = None
        self._measured = (0.0, 0.0)

    def __call__(self) -> float:
        """Return the share."""
        now = time.monotonic()
        at, share = self._measured
        if self._began is not None and now - at < _PRECISION:
            return share
        worked = time.process_time()
        if self._began is None:
            self._began = (worked, now)
        passed = max(worked - self._began[0], (now - self._began[1]) / _PATIENCE)
        share = passed / self._seconds if self._seconds > 0 else 1.0
        self._measured = (now, share)
        self.was_over |= share >= 1
        return share

    def record_cut(self) -> None:
        """Record that too little time was left for a stage."""
        self.was_over = True

    @property
    def stopped_by(self) -> str:
        """`time` if the clock ended the search early, so that the plan may depend on the machine; else `iterations`."""
        return TIME if self.was_over and self._seconds > 0 else "iterations"


def share_of_time(arguments: argparse.Namespace) -> TimeLimit | None:
    """Return the time limit of `--time-budget`; None if only `--improve-iterations` bounds the search."""
    return None if arguments.improve_iterations is not None else TimeLimit(arguments.time_budget)


def timing(decode_seconds: float, solve_seconds: float, time_limit: TimeLimit | None) -> JsonObject:
    """Return how long reading and deciding took, and what stopped the search.

    The durations are null under an iteration bound, which guarantees the same bytes for the same input.
    """
    if time_limit is None:
        return {"decodeSeconds": None, "solveSeconds": None}
    return {
        "decodeSeconds": round(decode_seconds, 4),
        "solveSeconds": round(solve_seconds, 4),
        "stoppedBy": time_limit.stopped_by,
    }


_STOPPED: Final = (
    "the clock stopped the search for cheaper nodes, so another run may answer otherwise: "
    "a larger --time-budget lets it go on, --improve-iterations N gives the same answer everywhere"
)


def time_limit_warning(stopped_by: str | None) -> str:
    """Return advice on one line if the clock ended a search early, else an empty text."""
    return _STOPPED if stopped_by == TIME else ""


def time_limit_line(stopped_by: str | None) -> str:
    """Return the same advice for the terminal that shows an answer, in lines of its width."""
    text = time_limit_warning(stopped_by)
    return style.styled(wrapped(text), "yellow") if text else ""
