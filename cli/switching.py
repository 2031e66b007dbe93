"""Sets kill switches and prints the old and new setting: the common part of `pause` and `resume`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, Final

from cli.cluster.arguments import add_access, add_all, refuse_role_alone
from cli.cluster.organisation import unreadable_text
from cli.errors import DONE, NEGATIVE
from cli.terminal import output
from core.brakes.brake import STOPS
from core.brakes.kill_switch import Mode, kill_switch

if TYPE_CHECKING:
    from cli.cluster.kill_switch import KillSwitches, SwitchSetting

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
    from cli.answers.plan_document import API_VERSION
    from cli.cluster.installation import find_installation
    from cli.cluster.kill_switch import switch_of
    from cli.cluster.organisation import find_organisation

    refuse_role_alone(arguments)
    changes: list[dict[str, Any]] = []
    unreadable: list[dict[str, Any]] = []
    if arguments.all:
        answers, failed = find_organisation(arguments).ask(lambda found: _turned(found.switches, found.switch, mode))
        changes = [change | {"region": found.site.region, "role": found.site.role or None} for found, change in answers]
        unreadable = [found.document() for found in failed]
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
    after = switch.value if is_kept else str(switches.one(switch.cluster, switch.parameter).value)
    return {
        "cluster": switch.cluster,
        "parameter": switch.parameter,
        "before": switch.value,
        "after": after,
        "stops": _stopped(after, switch.parameter),
    }


def switch_table(document: dict[str, Any]) -> str:
    """Format the switches for people."""
    rows = [
        (change["cluster"], change["before"], change["after"], ", ".join(change["stops"]) or "nothing")
        for change in document["switches"]
    ]
    switches = output.table(("CLUSTER", "WAS", "IS", "STOPS"), rows)
    kept = [change for change in document["switches"] if change["after"] != document["wanted"]]
    left = [
        f"{change['cluster']} is left at {change['after']}, which is stricter: run `fleetwright resume` to release it"
        for change in kept
    ]
    parts = ["\n".join([switches, "", *(left or [NOTICED])]), unreadable_text(document["unreadable"])]
    return output.wrapped("\n\n".join(filter(None, parts)))


def _stopped(value: str, parameter: str) -> list[str]:
    brake = kill_switch(value, parameter)
    return [] if brake is None else [str(action) for action in STOPS[brake.kind]]
