"""The summary of a simulation, for people."""

from __future__ import annotations

import msgspec

from cli.answers.simulation_table import FIGURES, simulation_table
from cli.schemas.simulation import SimulationSummaryAnswer

WAITS = {"p50": 31.0, "p99": 45.5, "max": 46.081}

SUMMARY = {
    **dict.fromkeys(FIGURES, 0),
    "apiVersion": "fleetwright.dev/v1",
    "kind": "SimulationSummary",
    "scenario": "noon",
    "virtualSeconds": 3600,
    "podsUnschedulable": {},
    "pendingSeconds": WAITS,
    "dollars": 1234.5,
    "invocations": {"disrupt": 2, "provision": 11},
}


def test_every_figure_has_a_name_in_words() -> None:
    """A field that is added without one would be missing in the table."""
    fields = [field.encode_name for field in msgspec.structs.fields(SimulationSummaryAnswer)]
    assert [name for name in fields if name not in ("apiVersion", "kind")] == [*FIGURES]


def test_figures_have_their_units() -> None:
    """A reader needs no reference page for the table."""
    lines = dict(line.split("  ", 1) for line in simulation_table(SUMMARY).splitlines()[1:])
    found = {name.strip(): text.strip() for name, text in lines.items()}
    assert found["simulated time"] == "1:00:00"
    assert found["time pending"] == "median 31 s, 99th percentile 45.5 s, longest 46.1 s"
    assert found["cost"] == "$1,234.50"
    assert (found["pods unschedulable at the end"], found["invocations"]) == ("none", "disrupt 2, provision 11")
