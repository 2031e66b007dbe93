"""NodeOverlays in whole plans: prices and capacity of what NodePools launch."""

from __future__ import annotations

from core import labels
from core.model.snapshot import FeatureGates, NodeOverlay, Options
from core.model.values.requirements import Requirement
from core.reasons.pods import PodReason
from tests.builders import ZONES, a_pod, a_pool
from tests.unit.scheduling.greedy.types_for_tests import LARGE, SMALL
from tests.unit.scheduling.reading import plan_of, reasons_of


def test_overlays_change_prices_and_add_capacity_behind_their_gate() -> None:
    """Otherwise, the user's discount does not affect the choice."""
    cheap_large = NodeOverlay(
        name="deal",
        requirements=(Requirement.one_of(labels.INSTANCE_TYPE, "large"),),
        price_adjustment="-90%",
        capacity={"example.com/fpga": 1},
    )
    on = Options(feature_gates=FeatureGates(node_overlay=True))
    world = {"types": (SMALL, LARGE), "overlays": (cheap_large,)}
    claim = plan_of(**world, options=on, pods=(a_pod("p"),)).claims[0]
    assert (claim.instance_types[0], claim.price) == ("large", 16_000_000)
    assert plan_of(**world, pods=(a_pod("p"),)).claims[0].instance_types[0] == "small"
    fpga = (a_pod("p", extra={"example.com/fpga": "1"}),)
    assert plan_of(**world, options=on, pods=fpga).unschedulable == ()
    assert reasons_of(plan_of(**world, pods=fpga)) == {"p": PodReason.NO_OFFERING_FITS}


def test_the_heavier_overlay_wins() -> None:
    """Otherwise, of two overlays on one price both apply, or the wrong one."""
    first = NodeOverlay(name="a", price=5_000_000, weight=1)
    second = NodeOverlay(name="b", price=7_000_000, weight=2)
    on = Options(feature_gates=FeatureGates(node_overlay=True))
    plan = plan_of(types=(SMALL,), overlays=(first, second), options=on, pods=(a_pod("p"),))
    assert plan.claims[0].price == 7_000_000


def test_an_overlay_applies_only_to_nodes_that_the_pool_launches_and_to_certain_labels() -> None:
    """A node was launched for a pod's device that the node did not have."""
    on = Options(feature_gates=FeatureGates(node_overlay=True))
    device = {"example.com/fpga": 1}
    elsewhere = NodeOverlay(name="zone", requirements=(Requirement.one_of(labels.ZONE, ZONES[1]),), capacity=device)
    here = a_pool("default", Requirement.one_of(labels.ZONE, ZONES[0]))
    open_label = a_pool("default", Requirement.of("example.com/bay", "Exists"))
    in_bay = NodeOverlay(name="bay", requirements=(Requirement.one_of("example.com/bay", "7"),), capacity=device)
    for pool, overlay in ((here, elsewhere), (open_label, in_bay)):
        pods = (a_pod("p", extra={"example.com/fpga": "1"}),)
        plan = plan_of(types=(SMALL,), overlays=(overlay,), node_pools=(pool,), options=on, pods=pods)
        assert reasons_of(plan) == {"p": PodReason.NO_OFFERING_FITS}
