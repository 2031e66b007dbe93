"""Labels of one object are turned into requirements once."""

from __future__ import annotations

from core.model.values.label_requirements import requirements_of_labels
from core.model.values.requirements import Requirements


def test_the_labels_of_an_object_are_its_requirements_and_read_once() -> None:
    labels = {"topology.kubernetes.io/zone": "a", "team": "shop"}
    found = requirements_of_labels(labels)
    assert found == Requirements.from_labels(labels)
    assert requirements_of_labels(labels) is found
    assert requirements_of_labels(dict(labels)) == found
