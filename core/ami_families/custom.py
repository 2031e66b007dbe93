"""Custom: the user's own image and user data. The user sets labels, taints and kubelet settings in them."""

from __future__ import annotations

from typing import Final

from core.ami_families.bootstrap import Bootstrap
from core.ami_families.family import AmiFamily


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
