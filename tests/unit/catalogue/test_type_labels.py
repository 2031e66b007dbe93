"""The labels that a node has because of its type."""

from __future__ import annotations

import pytest

from core import labels
from tests.unit.catalogue.sized_types import (
    default_types,
)


def test_labels_describe_the_machine() -> None:
    """NodePools and pods select on these."""
    found = {key.removeprefix(f"{labels.AWS_GROUP}/"): v for key, v in default_types()["g5.48xlarge"].labels.items()}
    assert found["instance-gpu-name"] == ("a10g",)
    assert found["instance-gpu-count"] == ("8",)
    assert found["instance-category"] == ("g",)
    assert found["instance-generation"] == ("5",)
    assert found["instance-size"] == ("48xlarge",)
    assert found["instance-local-nvme"] == ("7600",)
    assert found[labels.ARCH] == ("amd64",)
    assert default_types()["c7g.large"].labels[labels.ARCH] == ("arm64",)
    assert default_types()["u7i-12tb.224xlarge"].labels[f"{labels.AWS_GROUP}/instance-category"] == ("u",)
    assert default_types()["c7i-flex.large"].labels[f"{labels.AWS_GROUP}/instance-capability-flex"] == ("true",)
    inferentia = default_types()["inf2.xlarge"].labels
    assert inferentia[f"{labels.AWS_GROUP}/instance-accelerator-name"] == ("inferentia2",)
    assert inferentia[f"{labels.AWS_GROUP}/instance-accelerator-manufacturer"] == ("aws",)


@pytest.mark.parametrize(
    ("name", "mbps"),
    [
        ("m5.large", ("750",)),
        ("c6in.32xlarge", ("200000",)),
        ("p4d.24xlarge", ("400000",)),
        ("c5n.18xlarge", ("100000",)),
        ("m4.large", None),
    ],
)
def test_network_bandwidth_is_the_sustained_rate(name: str, mbps: tuple[str, ...] | None) -> None:
    """Otherwise, a NodePool that requires bandwidth gets burstable machines, or twice what a machine has."""
    assert default_types()[name].labels.get(f"{labels.AWS_GROUP}/instance-network-bandwidth") == mbps
