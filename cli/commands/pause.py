"""`fleetwright pause`, `fleetwright resume`: stop voluntary disruption, or everything, and let the functions continue."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from cli import arguments as shared
from cli.arguments import add_access, add_all, refuse_role_alone
from cli.cluster.organisation import distinct_names, unreadable_text
from cli.errors import DONE, NEGATIVE, InputError
from cli.terminal import output
from core.brakes import STOPS, Mode, kill_switch

if TYPE_CHECKING:
    from cli.cluster.own_state import KillSwitches, SwitchSetting


SWITCHED: Final = "switched"
"""What is done to each cluster, for its error."""

NOTICED: Final = "functions notice within 15 seconds"


def add_switches(parser: argparse.ArgumentParser) -> None:
    """Add the choice of clusters."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cluster", metavar="NAME", help="an EKS cluster that the functions manage")
    add_all(parser, which)
    parser.add_argument("--region", metavar="REGION", help="where they are (default: that of the credentials)")
    add_access(parser)


def switch_to(arguments: argparse.Namespace, mode: Mode) -> int:
    """Set the selected switches to `mode`.

    Negative if one is unchanged because it is stricter than requested or could not be set; all others are set.
    """
    from cli.answers.plan import API_VERSION
    from cli.cluster.organisation import find_organisation
    from cli.cluster.own_state import find_installation, switch_of

    refuse_role_alone(arguments)
    changes: list[dict[str, Any]] = []
    unreadable: list[dict[str, Any]] = []
    if arguments.all:
        answers, failed = find_organisation(arguments).ask(
            lambda cluster: _turned(cluster.switches, cluster.switch, mode), SWITCHED
        )
        changes = [change | cluster.where() for cluster, change in answers]
        unreadable = [cluster.document() for cluster in failed]
    else:
        region, profile, stack = arguments.region, arguments.profile, arguments.stack
        installation = find_installation(arguments.cluster, region=region, profile=profile, stack=stack)
        changes = [_turned(*switch_of(installation), mode)]
    document = {
        "apiVersion": API_VERSION,
        "kind": "KillSwitchChange",
        "wanted": str(mode),
        "switches": changes,
        "unreadable": unreadable,
    }
    output.show(document, arguments.output, switch_table)
    return DONE if all(change["after"] == mode for change in changes) and not unreadable else NEGATIVE


def _turned(switches: KillSwitches, switch: SwitchSetting, mode: Mode) -> dict[str, Any]:
    is_kept = mode is Mode.PAUSE_DISRUPTION and switch.value == Mode.STOP
    if not is_kept and switch.value != mode:
        switches.turn(switch, mode)
    after = switch.value if is_kept else _read_back(switches, switch, mode)
    return {
        "cluster": switch.cluster,
        "parameter": switch.parameter,
        "before": switch.value,
        "after": after,
        "stops": _stopped(after, switch.parameter),
    }


def _read_back(switches: KillSwitches, switch: SwitchSetting, mode: Mode) -> str:
    """Return the setting after a change. Raises InputError, which says that the change was made."""
    try:
        return switches.one(switch.cluster, switch.parameter).value
    except InputError as error:
        problem = f"it is set to {mode}, but that cannot be read back: {error.problem}"
        raise InputError(problem, hint=error.hint) from error


def switch_table(document: dict[str, Any]) -> str:
    """Format the switches for people."""
    named = list(zip(distinct_names(document["switches"]), document["switches"], strict=True))
    rows = [
        (name, change["before"], change["after"], ", ".join(change["stops"]) or "nothing") for name, change in named
    ]
    switches = output.table(("CLUSTER", "WAS", "IS", "STOPS"), rows)
    remaining = [
        f"{name} is left at {change['after']}, which is stricter: run `fleetwright resume` to release it"
        for name, change in named
        if change["after"] != document["wanted"]
    ]
    parts = ["\n".join([switches, "", *(remaining or [NOTICED])]), unreadable_text(document["unreadable"], SWITCHED)]
    return output.wrapped("\n\n".join(filter(None, parts)))


def _stopped(value: str, parameter: str) -> list[str]:
    brake = kill_switch(value, parameter)
    return [] if brake is None else [str(action) for action in STOPS[brake.kind]]


# `pause`


_PAUSE_EXAMPLES: Final = """examples:
  fleetwright pause --cluster prod
  fleetwright pause --cluster prod --everything
  fleetwright pause --all --region eu-west-1,us-east-1 --role arn:aws:iam::111122223333:role/ops
"""


def configure_pause(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _PAUSE_EXAMPLES
    add_switches(parser)
    parser.add_argument(
        "--everything",
        action="store_true",
        help="stop launches, drains and terminations, too (without it pods still get nodes)",
    )
    shared.add_output(parser)


def run_pause(arguments: argparse.Namespace) -> int:
    """Set the kill switches. A switch that is set to `stop` stays at `stop`."""
    return switch_to(arguments, Mode.STOP if arguments.everything else Mode.PAUSE_DISRUPTION)


# `resume`


_RESUME_EXAMPLES: Final = """examples:
  fleetwright resume --cluster prod
  fleetwright resume --all --region eu-west-1,us-east-1 --role arn:aws:iam::111122223333:role/ops
"""


def configure_resume(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _RESUME_EXAMPLES
    add_switches(parser)
    shared.add_output(parser)


def run_resume(arguments: argparse.Namespace) -> int:
    """Release the kill switches."""
    return switch_to(arguments, Mode.RUN)
