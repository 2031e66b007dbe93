"""A problem names its object and the path of its field."""

from __future__ import annotations

import pytest

from core.api.problem import Location, Problem, path_of


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ((), ""),
        (("spec", "taints", 0, "key"), "spec.taints[0].key"),
        (("labels", "example.com/team"), "labels[example.com/team]"),
        (("labels", ""), "labels[]"),
        ((2, "key"), "[2].key"),
    ],
)
def test_a_path_is_written_as_kubectl_writes_it(location: Location, path: str) -> None:
    assert path_of(location) == path


def test_a_problem_is_one_line_and_problems_are_ordered_by_object() -> None:
    first, second = (
        Problem("NodePool", "a", "spec.weight", "is no number"),
        Problem("NodePool", "b", "spec", "is required"),
    )
    assert str(first) == "NodePool a: spec.weight: is no number"
    assert sorted([second, first]) == [first, second]
