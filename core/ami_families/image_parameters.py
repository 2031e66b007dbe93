"""The public SSM parameters under which AWS publishes a family's images, and which instance types each image is for."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from core import labels

_GPU: Final = f"{labels.AWS_GROUP}/instance-gpu-count"
_ACCELERATOR: Final = f"{labels.AWS_GROUP}/instance-accelerator-count"

ImageRequirements = tuple[dict[str, Any], ...]
"""An image's requirements on an instance type, in the form of an EC2NodeClass's status."""

STANDARD: Final[ImageRequirements] = (
    {"key": _ACCELERATOR, "operator": "DoesNotExist"},
    {"key": _GPU, "operator": "DoesNotExist"},
)
NVIDIA: Final[ImageRequirements] = ({"key": _GPU, "operator": "Exists"},)
NEURON: Final[ImageRequirements] = ({"key": _ACCELERATOR, "operator": "Exists"},)

LATEST: Final = "latest"
"""The release in an alias that follows what AWS publishes."""


class ImageParameter(msgspec.Struct, frozen=True):
    """One parameter, whose value is an image id, and the sets of requirements that the image serves."""

    path: str
    serves: tuple[ImageRequirements, ...]
