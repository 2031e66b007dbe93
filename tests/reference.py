"""Writes the reference pages and the CustomResourceDefinitions from the code.

`python -m tests.reference` writes them, and a test compares them.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from cli.__main__ import COMMANDS, EXIT_CODES, command_parser
from cli.commands import program
from cli.commands.manifests import as_yaml
from cli.schemas.periods import ANSWERS, schema
from cli.validation.formats import KUBERNETES_FIELDS, MEANINGS, written_fields
from core.api.crds import definitions
from core.brakes import ACTIONS, STOPS, Action, BrakeKind
from core.launch import denials
from core.launch.denials import FIRST_PAUSE, LONGEST_PAUSE, OTHER, RULES, LaunchErrorRule, Remembered
from core.launch.selection import FASTEST, QUIET, SLOWEST
from core.model.snapshot import GATES, FeatureGates
from core.reasons.code import (
    AdoptionReason,
    ClaimReason,
    DecisionKind,
    DocumentedCode,
    ReleaseReason,
    TargetReason,
    TerminationReason,
)
from core.reasons.groups import RequestReason
from core.reasons.nodes import DriftReason, NodeReason
from core.reasons.pods import BindingReason, EvictionReason, HeldPodReason, PodReason
from core.reasons.runs import CommandReason, DrainReason, FailureReason, GroupFate, RunReason
from installation import metric_names
from installation.metric_names import NAMESPACE
from installation.settings import Settings
from tests import compatibility, figures
from tests.simulation.test_launches import CALLS, CALLS_MAX, OURS, calls_of
from tests.template_checks import partitions_page

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "docs" / "reference"
SCHEMAS: Final = FOLDER / "schemas"
CRDS: Final = ROOT / "crds"
_WRITTEN_BY: Final = "<!-- Written by `make docs`. Change the code, not this page. -->"


def pages() -> dict[str, str]:
    """File name in `docs/reference` → its whole text."""
    return {
        "reason-codes.md": reason_codes(),
        "brakes.md": brakes(),
        "launch-errors.md": launch_errors(),
        "settings.md": settings(),
        "cli.md": command_line(),
        "metrics.md": metrics(),
        "template-findings.md": partitions_page.findings_text(),
        "compatibility.md": compatibility.text(),
    }


def schemas() -> dict[str, str]:
    """File name in `docs/reference/schemas` → its whole text."""
    return {f"{command}.schema.json": json.dumps(schema(command), indent=2) + "\n" for command in ANSWERS}


def crds() -> dict[str, str]:
    """File name in `crds` → its whole text."""
    written_by = "# Written by `make docs`. Change core/api, not this file.\n"
    return {
        f"{found['spec']['group']}_{found['spec']['names']['plural']}.yaml": written_by + as_yaml(found)
        for found in definitions()
    }


def reason_codes() -> str:
    """Every enumeration of `core.reasons`, each under a heading of its own."""
    return _page(
        "Reason codes",
        "Closed lists: a code that is not here is a bug. `fleetwright explain` gives the code with what it means for one pod "
        "or node.",
        "## Why a pod stays without a place",
        "`unschedulable[].reason` of a plan. NodePools may differ; the code is that of the NodePool that came nearest. The "
        "later in this table, the nearer. A taint keeps pods out on purpose, so `TaintNotTolerated` comes last, but after "
        "`NoOfferingFits` where the pod lacks nothing else and asks for a device or a label of that NodePool.",
        _codes(PodReason, has_anchors=True),
        "## Why a node stays",
        "`blocked[].reason` of a disruption plan.",
        _codes(NodeReason, has_anchors=True),
        "## Reasons to remove a node",
        "`commands[].reason` of a disruption plan; decisions of the kinds `disrupt`, `terminate`, `interrupt` and `drain`; the "
        "annotation `fleetwright.dev/disruption-reason` of a node.",
        _codes(TerminationReason),
        "## Why a pod is left to kube-scheduler",
        "Decisions of a claim whose pods are bound by us (`bindPods`).",
        _codes(BindingReason),
        "## Conditions of a ProvisioningRequest",
        "`reason` of a condition; the message has numbers and times.",
        _codes(RequestReason),
        "## What has drifted",
        _codes(DriftReason),
        "## Course of a disruption command",
        "Decisions of the kinds `abandon` and `skip` about a command.",
        _codes(CommandReason),
        "## Outcome of the target of the fleet",
        "`targetReason` of a disruption plan in the ledger.",
        _codes(TargetReason),
        "## Why a node of Karpenter's is not adopted",
        "`items[].reason` of `fleetwright adopt`.",
        _codes(AdoptionReason),
        "## Why a claim is not released to Karpenter",
        "`items[].reason` of `fleetwright release`.",
        _codes(ReleaseReason),
        "## Reasons that a pod stays on a draining node",
        "Why a pod was not evicted:",
        _codes(EvictionReason),
        "Why it was not asked to leave, or has not left:",
        _codes(HeldPodReason),
        "Outcome of the drain:",
        _codes(DrainReason),
        "## Groups whose members leave a node",
        "`groups[].fate` of a command, empty where nothing says that the members need each other; events and "
        "`fleetwright log` have the sentence.",
        _codes(GroupFate),
        "## Course of a NodeClaim and its node",
        "Decisions about a claim, an instance or a node that is not being removed.",
        _codes(ClaimReason),
        "## Outcome of a run",
        _codes(RunReason),
        "## Which brake stopped something",
        "Decisions of the kind `skip` and `brake`; [brakes](brakes.md) says what each of them stops.",
        _codes(BrakeKind),
        "## Kinds of errors of a call",
        "The message of the decision has the call and what the other side said.",
        _codes(FailureReason),
        "## Kinds of decisions",
        "`decisions[].kind` in the answer of a function and `kind` in its log.",
        _codes(DecisionKind),
        "## Faults of a manifest",
        "`problems[].code` of `fleetwright validate -o json`.",
        _table(("code", "meaning"), ((f"`{code}`", meaning) for code, meaning in MEANINGS.items())),
    )


def _codes(codes: type[DocumentedCode], *, has_anchors: bool = False) -> str:
    """The members of an enumeration, with a column of advice if any member has some.

    Those that `explain` refers to have anchors; the others may share a code with another enumeration.
    """
    if not any(code.advice for code in codes):
        return _table(("code", "meaning"), ((f"`{code}`", code.meaning) for code in codes))
    anchors = {code: f'<a id="{code.lower()}"></a>' if has_anchors else "" for code in codes}
    rows = ((f"{anchors[code]}`{code}`", code.meaning, code.advice or "Nothing.") for code in codes)
    return _table(("code", "meaning", "what to do"), rows)


def launch_errors() -> str:
    """The table of EC2's codes, and the reaction to each."""
    rules = (*RULES, msgspec.structs.replace(OTHER, code=""))
    rows = ((*_remembered(rule), _denied_calls(rule), rule.advice) for rule in rules)
    ends = ((*_remembered(rule), *_played(rule), rule.advice) for rule in denials.END_RULES)
    return _page(
        "Launch errors",
        "What EC2 may answer to CreateFleet, among the `Errors` of an answer or as the error of the call, and what is done "
        "about it. A code in neither this table nor among the faults that pass is treated like the last row.",
        "## What is remembered",
        _codes(Remembered),
        f"A pause lasts {_minutes(FIRST_PAUSE)}, twice as long after each further denial, at most {_minutes(LONGEST_PAUSE)}. "
        "When it is over one launch asks again and the others wait for its answer: a success ends the pause for all. A change "
        "of the EC2NodeClass ends it at once. Missing capacity pauses an EC2NodeClass only after three requests in a row that "
        "found none; before that the single offerings are avoided.",
        "## Who is informed",
        "*condition*: `LaunchDenied` of the EC2NodeClass and its NodePools. Its reason is EC2's code; its message has action, "
        "EC2's message, what to do and the time of the next attempt. *pods*: an event `FailedScheduling` of each pod that "
        "would have a node otherwise, with the code `LaunchDenied` or `NoOfferingAvailable`. The alarm `refused-calls` goes "
        "off while pods wait, and names the action and EC2's code, or the resource that a missing permission is about.",
        "## Code by code",
        "The column of calls has CreateFleet calls in 10 minutes, for 3 as for 40 pods, whether EC2 tells the code among the "
        "`Errors` or as the error of the call, as `tests/simulation/test_launches.py` plays them; at most "
        f"{CALLS_MAX}. Codes without calls are ours.",
        _table(("code", "remembered", "told", "calls", "what to do"), rows),
        "Faults that pass (throttling, EC2's own errors, time-outs) are tried again with the same token, which cannot launch "
        "twice, for five minutes. Each attempt that EC2 throttles, or answers with its own error, halves the rate of "
        f"requests of all clusters of the account and region, from {FASTEST // 1000} a second down to one in "
        f"{round(1000 / SLOWEST)} seconds; "
        f"{QUIET // 1000} seconds after the last one it rises again "
        "([pace of requests](../engineering/handbook/launching.md#pace-of-requests)).",
        "## Instances that end while they start",
        "EC2 launches some instances that it ends seconds later: the key of a volume may not be used, a snapshot is gone, a "
        "host fails. `interrupt` hears of the end, `execute` reads `StateReason`, and the claim ends with that code: reason "
        "`StartFailed`, or `InstanceWithdrawn` where capacity is short. Since CreateFleet succeeds, only a node that joins "
        "ends the pause; until then one instance at a time is launched, the next after 90 seconds at the earliest. The "
        "columns of calls are CreateFleet calls in 10 minutes for 3 and for 40 pods, as "
        "`tests/simulation/test_launches.py` plays them.",
        _table(("code", "remembered", "told", "3 pods", "40 pods", "what to do"), ends),
        f"Codes that begin with {' or '.join(f'`{code}`' for code in denials.BY_SOMEBODY)} say that somebody ended the "
        "instance. Nothing is remembered of them; the claim's reason is `InstanceTerminated`, with EC2's code in its message.",
    )


def _remembered(rule: LaunchErrorRule) -> tuple[str, str, str]:
    """The code of a rule, what is remembered, and who is informed."""
    told = {Remembered.OFFERINGS: "pods, and by condition after three requests", Remembered.SUBNET: "pods"}
    code = f"`{rule.code}{'*' if rule.begins else ''}`"
    return code, rule.remembered, told.get(rule.remembered, "condition, pods")


def _denied_calls(rule: LaunchErrorRule) -> str:
    """CreateFleet calls, none for a code of ours."""
    return "" if rule.code in OURS else str(calls_of(rule))


def _played(rule: LaunchErrorRule) -> tuple[str, str]:
    """CreateFleet calls for few and for many pods."""
    few, many = CALLS[rule.code]
    return str(few), str(many)


def _minutes(span: timedelta) -> str:
    count = round(span / timedelta(minutes=1))
    return f"{count} minute{'s' * (count != 1)}"


def brakes() -> str:
    """Each brake, and the actions that it stops."""
    stopped = (
        (f"`{kind}`", *("stops" if action in STOPS[kind] else "" for action in Action), kind.meaning)
        for kind in BrakeKind
    )
    return _page(
        "Brakes",
        "Brakes hold the functions back ([stop it](../how-to/stop-it.md)). A brake stops what has "
        "not begun: a node that is being drained when a brake engages is drained to the end, except under `KillSwitchStop`. "
        "All unmarked work continues.",
        "## Which brake stops what",
        _table(("brake", *(f"`{action}`" for action in Action), "meaning"), stopped),
        "A brake is noticed within 15 seconds. Each function says it in a decision of the kind `skip` with the brake as its "
        "reason.",
        "## Commands that wait for approval",
        "With `mode: approve` commands beyond a bound wait for a person ([approve commands](../how-to/approve.md)). That is no "
        "brake: pods get nodes, smaller commands go, unhealthy nodes are replaced, and nothing is counted as stopped. While a "
        "brake stops a NodePool's nodes, their proposals wait too, and an approved one begins when the brake is released.",
        "## Actions that a brake can stop",
        _table(("action", "meaning"), ((f"`{action}`", meaning) for action, meaning in ACTIONS.items())),
    )


def settings() -> str:
    """Every environment variable of the functions, and the feature gates."""
    hints = get_type_hints(Settings, include_extras=True)
    meanings = _attributes(Settings)
    rows = (
        (f"`{field.name.upper()}`", _type_name(hints[field.name]), _default(field.default), meanings[field.name])
        for field in msgspec.structs.fields(Settings)
    )
    gates = (
        (f"`{name}`", str(getattr(FeatureGates(), field)).lower(), _attributes(FeatureGates)[field])
        for name, field in GATES.items()
    )
    return _page(
        "Settings",
        "The functions read these settings from their environment. `infra/provisioner.py` writes it; an installation "
        "may choose some in its context (see [deploy](../how-to/deploy.md)). A function with a setting that is missing or not "
        "understood does not start, and names the variable.",
        _table(("variable", "type", "default", "meaning"), rows),
        "## Feature gates",
        "`FEATURE_GATES` holds `Name=true,Other=false`, on the command line as in the functions. Unknown names are passed "
        "over.",
        _table(("gate", "default", "meaning"), gates),
    )


def metrics() -> str:
    """Every count that an alarm or a graph uses."""
    told = sorted(metric_names.METRICS.items())
    rows = [(f"`{metric_names.in_cloudwatch(name)}`", metric.unit, metric.question) for name, metric in told]
    return _page(
        "Metrics",
        f"Counts in CloudWatch's namespace `{NAMESPACE}`, written by the functions with each run; a count of zero becomes no "
        "metric. [Alarms](../how-to/alarms.md) says which of them wake somebody and what to do then. All other counts, those "
        "of each [kind](reason-codes.md#kinds-of-decisions) of decision among them, are in the log line `counted`. "
        "[Karpenter's metrics](karpenter-metrics.md) has the answer for each of Karpenter's names.\n\n"
        "A line of metrics in the log names the `decisions` (their ids) that it counts. `DeniedCalls` and `UnpermittedCalls` "
        "are also written by `action` and `resource`, the first then with the launches that stay refused.",
        _table(("metric", "unit", "the question that it answers"), rows),
    )


def command_line() -> str:
    """Every command with its arguments."""
    exits = _table(("code", "meaning"), ((f"{code}", meaning) for code, meaning in EXIT_CODES.items()))
    return _page(
        "Command line",
        "The console script is `fleetwright`; `python -m cli` from the repository's root is the same program. Data goes to "
        "standard output, everything else to standard error. `--debug` shows tracebacks.",
        "## Exit codes",
        exits,
        *(part for name in COMMANDS for part in _command(name)),
    )


def main() -> int:
    """Write the pages that have changed, and print their names."""
    texts = {FOLDER / name: text for name, text in pages().items()} | {
        CRDS / name: text for name, text in crds().items()
    }
    texts |= {SCHEMAS / name: text for name, text in schemas().items()}
    texts |= {KUBERNETES_FIELDS: written_fields(), program.PAGE: program.written_page()} | figures.pages()
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            sys.stderr.write(f"wrote {path.relative_to(ROOT)}\n")
    return 0


def _command(name: str) -> Iterator[str]:
    parser = command_parser(name)
    yield f"## fleetwright {name}"
    yield f"{COMMANDS[name][:1].upper()}{COMMANDS[name][1:]}."
    arguments = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
    yield _table(("argument", "default", "meaning"), ((_spelling(a), _default_of(a), _help(a)) for a in arguments))
    yield f"```sh\n{_examples(parser)}\n```"


def _spelling(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else str(action.metavar or "").strip() or "|".join(action.choices or ())
    value = value or action.dest.upper()
    if not action.option_strings:
        return f"`{value}`"
    return f"`{', '.join(action.option_strings)}{f' {value}' if action.nargs != 0 else ''}`"


def _default_of(action: argparse.Action) -> str:
    if action.required and action.nargs not in (argparse.OPTIONAL, argparse.ZERO_OR_MORE):
        return "required"
    if isinstance(action.default, list | tuple):
        return ", ".join(f"`{value}`" for value in action.default)
    return f"`{action.default}`" if action.default else ""


def _help(action: argparse.Action) -> str:
    return re.sub(r"\s*\(default: %\(default\)s\)", "", action.help or "")


def _examples(parser: argparse.ArgumentParser) -> str:
    return inspect.cleandoc((parser.epilog or "").partition("examples:")[2])


def _attributes(documented: type) -> Mapping[str, str]:
    """The `Attributes:` section of a class's docstring, field by field; one entry may describe several fields."""
    section = inspect.cleandoc(documented.__doc__ or "").partition("Attributes:\n")[2]
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", section, flags=re.MULTILINE)
    return {name: " ".join(meaning.split()) for names, meaning in entries for name in names.split(", ")}


def _type_name(hint: Any) -> str:
    """A type in words."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, meta = get_args(hint)
        bound = f", {meta.ge} or more" if meta.ge is not None else ""
        return f"{_type_name(base)}{bound}"
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in get_args(hint))
    if origin in (Union, types.UnionType):
        return " or ".join(_type_name(part) for part in get_args(hint) if part is not types.NoneType)
    return {str: "text", int: "whole number", bool: "`true` or `false`"}[hint]


def _default(value: object) -> str:
    if value is msgspec.NODEFAULT:
        return "required"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value in ("", None) else f"`{value}`"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _page(title: str, *parts: str) -> str:
    return "\n\n".join((f"# {title}", _WRITTEN_BY, *parts)) + "\n"


if __name__ == "__main__":
    sys.exit(main())
