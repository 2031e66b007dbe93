"""The words of explanations."""

from __future__ import annotations

from core.model.values.requirements import Requirement
from core.scheduling.explanation.wording import amount_of, shown, unlike
from tests.builders import a_type
from tests.unit.scheduling.reading import context_of


def test_requirements_and_amounts_read_as_kubernetes_writes_them() -> None:
    """Otherwise a user would have to guess which field is meant."""
    assert shown(Requirement.one_of("team", "a", "b")) == "team In [a, b]"
    assert shown(Requirement.of("cpu-count", "Gt", ["4"])) == "cpu-count >= 5"
    assert (amount_of(2**30 + 1, "memory"), amount_of(1500, "cpu")) == ("2Gi", "1500m")


def test_what_the_types_have_is_shown_beside_what_is_demanded() -> None:
    """Otherwise a typing mistake in a label would be found by trying."""
    types = tuple(a_type(f"t{n}", family=value) for n, value in enumerate(("aa", "ab", "ba", "zz")))
    (template,) = context_of(types=types).templates
    message = unlike(template, template.types.full, Requirement.one_of("family", "ac"))
    assert message == "family In [ac] is demanded, and its types have ab, ba, zz and 1 more"
