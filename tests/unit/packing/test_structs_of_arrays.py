"""Structs that hold arrays are told apart by identity: `==` of two arrays is an array, and neither true nor false."""

from __future__ import annotations

import pkgutil

import msgspec
import pytest

STRUCTS = (
    "column_generation.columns:Columns",
    "column_generation.master_problem:MasterSolution",
    "column_generation.substitution_columns:Substitutions",
    "lp:LpColumns",
    "lp:LpRows",
    "optimize:OptimizedPacking",
    "problem:Packing",
    "problem:PackingProblem",
    "relaxation.fluid_lp:FluidSolution",
    "relaxation.fluid_lp:_Optimum",
    "relaxation.preparation:PreparedProblem",
    "relaxation.scaled_problem:JoinedItems",
    "relaxation.scaled_problem:ScaledProblem",
    "target.fleet_problem:FleetProblem",
    "target.fleet_problem:PodCells",
    "target.fleet_target:FleetTarget",
    "target.keep_or_drain:TargetRules",
)


@pytest.mark.parametrize("name", STRUCTS)
def test_a_struct_of_arrays_is_not_compared_field_by_field(name: str) -> None:
    """Otherwise, `==` raises as soon as an array has two elements, and the struct cannot be a key."""
    found = pkgutil.resolve_name(f"core.packing.{name}")
    assert issubclass(found, msgspec.Struct)
    assert not found.__struct_config__.eq
