"""Versions that can be released, as people and as pip write them."""

from __future__ import annotations

import pytest

from infra.release.version import Version, VersionError


@pytest.mark.parametrize(
    ("text", "of_python"), [("1.2.0", "1.2.0"), ("1.2.0-rc.1", "1.2.0rc1"), ("0.1.0-alpha.0", "0.1.0a0")]
)
def test_pip_and_people_write_the_same_version(text: str, of_python: str) -> None:
    assert Version(text).of_python == of_python


@pytest.mark.parametrize("text", ["", "1.2", "v1.2.3", "1.02.3", "1.2.3+local", "1.2.3-dev", "1.2.3/../x"])
def test_what_a_file_name_or_a_chart_could_not_carry_is_refused(text: str) -> None:
    with pytest.raises(VersionError, match="expected 1"):
        Version(text)
