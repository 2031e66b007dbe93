"""Names of packages are there, and their modules are imported when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from core.lazy_names import lazily


@pytest.mark.parametrize("package", ["core.api", "core.disruption", "core.scheduling"])
def test_every_name_that_a_package_offers_is_there_and_loads_nothing_before(package: str) -> None:
    """A name in `__all__` that no module has would be noticed by the first function that needs it."""
    code = (
        f"import sys, {package} as p; before = len([n for n in sys.modules if n.startswith({package!r} + '.')]);"
        "assert all(getattr(p, name) is not None for name in p.__all__); print(before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "0"


def test_another_name_is_an_attribute_error() -> None:
    """`hasattr` and `from … import` ask for names that may not be there."""
    get = lazily("core.values", {"known": "module"})
    with pytest.raises(AttributeError, match=r"module 'core\.values' has no attribute 'other'"):
        get("other")
