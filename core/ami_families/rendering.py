"""The user data of a node: which form, and its bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from core.ami_families.al2 import al2_user_data, windows_user_data
from core.ami_families.al2023 import al2023_user_data
from core.ami_families.bootstrap import Bootstrap
from core.ami_families.bottlerocket import bottlerocket_user_data
from core.ami_families.family import AL2, AL2023, BOTTLEROCKET, AmiFamily
from core.errors import InvalidInputError

USER_DATA_BYTES_MAX: Final = 16_384
"""EC2's limit, before base64."""

_RENDERERS: Final[dict[str, Callable[[Bootstrap], str]]] = {
    AL2.name: al2_user_data,
    AL2023.name: al2023_user_data,
    BOTTLEROCKET.name: bottlerocket_user_data,
}


def user_data(family: AmiFamily, bootstrap: Bootstrap) -> str:
    """The text as the node reads it, not yet base64. Custom gets the user's own, verbatim.

    Raises:
        InvalidInputError: If the user's text cannot be merged, or the result is larger than EC2 takes.
    """
    if family.is_windows:
        text = windows_user_data(bootstrap)
    elif family.name in _RENDERERS:
        text = _RENDERERS[family.name](bootstrap)
    else:
        text = bootstrap.user_data
    size = len(text.encode())
    if size > USER_DATA_BYTES_MAX:
        raise InvalidInputError(
            f"user data comes to {size} bytes, EC2 takes {USER_DATA_BYTES_MAX}: shorten it", field="spec.userData"
        )
    return text
