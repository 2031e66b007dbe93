"""A node is registered as it is at that moment."""

from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod


def test_a_registration_restores_no_taint_that_was_removed_after_the_list() -> None:
    """A node that was Ready when it was registered became not-ready for good, and was never initialized (seed 82)."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    lab.boot()
    (name,) = lab.kubernetes.names(kinds.NODES)
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    own = lab.kubernetes.raw(kinds.NODES, name)["spec"]["taints"]
    lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": [*own, not_ready]}})

    def becomes_ready(call: str) -> None:
        if call == "get nodes":
            lab.kubernetes.before_call = lambda _: None
            lab.kubernetes.amend(kinds.NODES, name, {"spec": {"taints": own}})

    lab.kubernetes.before_call = becomes_ready
    lab.tick(4)
    assert lab.kubernetes.raw(kinds.NODES, name)["spec"].get("taints", []) == []
    assert lab.claim.is_settled
