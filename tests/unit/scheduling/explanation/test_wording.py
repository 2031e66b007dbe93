"""The wording of explanations."""

from __future__ import annotations

from core.model.values.requirements import Requirement
from core.scheduling.explanation.wording import amount_of, shown, unlike
from tests.builders import a_type
from tests.unit.scheduling.reading import context_of


def test_requirements_and_amounts_are_written_as_in_kubernetes() -> None:
    """Otherwise, a user has to guess which field is meant."""
    assert shown(Requirement.one_of("team", "a", "b")) == "team In [a, b]"
    assert shown(Requirement.of("cpu-count", "Gt", ["4"])) == "cpu-count >= 5"
    assert (amount_of(2**30 + 1, "memory"), amount_of(1500, "cpu")) == ("2Gi", "1500m")


def test_the_values_of_types_are_shown_beside_the_required_ones() -> None:
    """Otherwise, a typo in a label is found by trial and error only."""
    types = tuple(a_type(f"t{n}", family=value) for n, value in enumerate(("aa", "ab", "ba", "zz")))
    (template,) = context_of(types=types).templates
    message = unlike(template, template.types.full, Requirement.one_of("family", "ac"))
    assert message == "family In [ac] is demanded, and its types have ab, ba, zz and 1 more"
