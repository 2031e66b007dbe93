"""Sets kill switches and prints the old and new setting: the common part of `pause` and `resume`."""

from __future__ import annotations

import argparse
from typing import Any, Final

from cli import output
from cli.errors import DONE, NEGATIVE
from core.brakes.brake import STOPS
from core.brakes.kill_switch import Mode, kill_switch

NOTICED: Final = "functions notice within 15 seconds"


def switch_to(arguments: argparse.Namespace, mode: Mode) -> int:
    """Set the selected switches to `mode`; negative where one was left unchanged, because it is stricter than requested."""
    from cli.cluster.kill_switch import meant
    from cli.plan_document import API_VERSION

    switches, found = meant(arguments)
    changes = []
    for switch in found:
        is_kept = mode is Mode.PAUSE_DISRUPTION and switch.value == Mode.STOP
        if not is_kept and switch.value != mode:
            switches.turn(switch, mode)
        after = switch.value if is_kept else str(switches.one(switch.cluster, switch.parameter).value)
        changes.append(
            {
                "cluster": switch.cluster,
                "parameter": switch.parameter,
                "before": switch.value,
                "after": after,
                "stops": _stopped(after, switch.parameter),
            }
        )
    document = {"apiVersion": API_VERSION, "kind": "KillSwitchChange", "wanted": str(mode), "switches": changes}
    output.show(document, arguments.output, switch_table)
    return DONE if all(change["after"] == mode for change in changes) else NEGATIVE


def switch_table(document: dict[str, Any]) -> str:
    """The switches for people."""
    rows = [
        (change["cluster"], change["before"], change["after"], ", ".join(change["stops"]) or "nothing")
        for change in document["switches"]
    ]
    told = output.table(("CLUSTER", "WAS", "IS", "STOPS"), rows)
    kept = [change for change in document["switches"] if change["after"] != document["wanted"]]
    left = [
        f"{change['cluster']} is left at {change['after']}, which holds back more: `fleetwright resume` releases it"
        for change in kept
    ]
    return output.wrapped("\n".join([told, "", *(left or [NOTICED])]))


def _stopped(value: str, parameter: str) -> list[str]:
    brake = kill_switch(value, parameter)
    return [] if brake is None else [str(action) for action in STOPS[brake.kind]]
