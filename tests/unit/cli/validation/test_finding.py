"""A finding names its object, and what was probably meant."""

from __future__ import annotations

import pytest

from cli.manifests.document import Document
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest

POD = Document("a.yaml", 0, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"}})


def test_a_finding_is_about_its_document_or_about_another_object() -> None:
    expected = Finding(
        document=POD,
        severity=Severity.ERROR,
        code=Code.NOT_FOUND,
        kind="Pod",
        name="shop/p",
        field="spec.x",
        message="is wrong",
    )
    assert finding_in(POD, Code.NOT_FOUND, "spec.x", "is wrong") == expected
    assert (expected.object, expected.text) == ("Pod/shop/p", "is wrong")
    other = finding_in(
        POD,
        Code.NO_EFFECT,
        "",
        "is wrong",
        severity=Severity.WARNING,
        suggestion="right",
        subject=("NodePool", "web"),
    )
    assert (other.object, other.severity, other.code) == ("NodePool/web", Severity.WARNING, Code.NO_EFFECT)
    assert other.text == "is wrong (did you mean 'right'?)"


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("Spot", "spot"),
        ("SPOTT", "spot"),
        ("on-demnd", "on-demand"),
        ("zzz", ""),
        ("cpus", "CPU"),
        ("CPU", "CPU"),
        ("arm65", "arm64"),
    ],
)
def test_the_known_word_of_nearly_the_same_spelling_is_meant(word: str, meant: str) -> None:
    assert nearest(word, ("spot", "on-demand", "cpu", "CPU", "arm64", "arm")) == meant
    assert nearest(word, ()) == ""
