"""Every AMI family, by name and by alias."""

from __future__ import annotations

from typing import Final

from core.ami_families.al2023 import AL2023
from core.ami_families.bootstrap_scripts import AL2, WINDOWS2019, WINDOWS2022, WINDOWS2025
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.family import AmiFamily, Bootstrap

# Custom: the user's own image and user data. The user sets labels, taints and kubelet settings in them.


def custom_user_data(bootstrap: Bootstrap) -> str:
    """The user's text, verbatim."""
    return bootstrap.user_data


CUSTOM: Final = AmiFamily(
    name="Custom",
    renderer=custom_user_data,
    registers_taints=False,
    takes_any_kubelet_field=True,
    default_volumes=(),
    ephemeral_device="",
)


FAMILIES: Final = {
    family.name: family for family in (AL2, AL2023, BOTTLEROCKET, CUSTOM, WINDOWS2019, WINDOWS2022, WINDOWS2025)
}
"""Name → family, in the order in which documents list them."""

BY_ALIAS: Final = {family.alias: family for family in FAMILIES.values() if family.alias}


def family_of(name: str, alias: str) -> AmiFamily:
    """The family of a name such as `AL2023`, else of an alias such as `al2023@latest`; Custom where neither is known."""
    if name:
        return FAMILIES.get(name, CUSTOM)
    return BY_ALIAS.get(alias.partition("@")[0].lower(), CUSTOM)
