"""Boots instances: from a launch to a Node in the cluster, as EC2, the AMI's bootstrap and the kubelet do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.model.values import resources
from simulator.aws.ec2.instance import Instance
from simulator.aws.ec2.node_size import node_size
from simulator.aws.ec2.user_data import KubeletConfig, read_user_data
from simulator.aws.exchange import Exchange
from simulator.aws.region import Region
from simulator.clock import VirtualClock

KUBELET_VERSION: Final = "v1.35.1"

Join = Callable[[dict[str, Any], str], None]


ENDS_AFTER: Final = timedelta(seconds=4)
"""From the launch to the end of an instance that cannot start."""


class _BootFault(msgspec.Struct):
    """A boot time for the next few instances; None: they never join. With a reason, EC2 ends them for it."""

    left: int
    takes: timedelta | None
    ends: str = ""


class Boot:
    """Boots instances. `join(node, claim)` registers a Node with the cluster, `end(instance, reason)` ends what cannot start.

    Args:
        takes: From launch to the node's registration.
        region: The instance types, with what their nodes have, and the zones.
    """

    def __init__(
        self,
        clock: VirtualClock,
        exchange: Exchange,
        join: Join,
        end: Callable[[Instance, str], None],
        *,
        takes: timedelta,
        region: Region,
    ) -> None:
        self._clock = clock
        self._exchange = exchange
        self._join = join
        self._end = end
        self._takes = takes
        self._region = region.name
        self._zone_ids = region.zone_ids
        self._facts = region.node_facts()
        self._fault: _BootFault | None = None

    def disturb(self, count: int, takes: timedelta | None) -> None:
        """Make the next `count` instances take this long; None: they never join.

        This replaces what remains of an earlier call.
        """
        self._fault = _BootFault(count, takes)

    def fail(self, count: int, reason: str) -> None:
        """Let EC2 end the next `count` instances soon after their launch. This replaces what remains of an earlier call."""
        self._fault = _BootFault(count, None, reason)

    def launched(self, instance: Instance) -> None:
        """Begin to boot a launched instance."""
        fault = self._next_fault()
        if fault is not None and fault.ends:
            self._clock.after(ENDS_AFTER, lambda: self._end(instance, fault.ends))
            return
        takes = self._takes if fault is None else fault.takes
        if takes is not None:
            self._clock.after(takes, lambda: self._register(instance))

    def _next_fault(self) -> _BootFault | None:
        if self._fault is None or self._fault.left <= 0:
            return None
        self._fault.left -= 1
        return self._fault

    def _register(self, instance: Instance) -> None:
        config = read_user_data(instance.user_data)
        if instance.is_alive and config is not None and config.starts:
            self._join(self._node(instance, config), instance.tags.get(labels.NODECLAIM, ""))

    def _node(self, instance: Instance, config: KubeletConfig) -> dict[str, Any]:
        facts = self._facts.get(instance.pool.instance_type)
        size = ({}, {}) if facts is None else node_size(facts, config)
        capacity, allocatable = size
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": instance.node_name,
                "labels": dict(sorted({**config.labels, **self._cloud_labels(instance)}.items())),
            },
            "spec": {"providerID": instance.provider_id, "taints": config.taints},
            "status": {
                "capacity": resources.render(capacity),
                "allocatable": resources.render(allocatable),
                "addresses": [
                    {"type": "InternalIP", "address": instance.private_ip},
                    {"type": "Hostname", "address": instance.node_name},
                    {"type": "InternalDNS", "address": instance.node_name},
                ],
                "nodeInfo": self._node_info(instance),
            },
        }

    def _node_info(self, instance: Instance) -> dict[str, str]:
        return {
            "architecture": self._exchange.architecture(instance.pool.instance_type),
            "operatingSystem": "linux",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": KUBELET_VERSION,
            "containerRuntimeVersion": "containerd://2.1.4",
            "kernelVersion": "6.12",
            "osImage": instance.image_id,
            "machineID": instance.id,
            "systemUUID": instance.id,
            "bootID": instance.id,
        }

    def _cloud_labels(self, instance: Instance) -> dict[str, str]:
        pool = instance.pool
        architecture = self._exchange.architecture(pool.instance_type)
        own = {
            labels.HOSTNAME: instance.node_name,
            labels.ARCH: architecture,
            labels.OS: "linux",
            labels.INSTANCE_TYPE: pool.instance_type,
            labels.REGION: self._region,
            labels.ZONE: pool.zone,
            labels.EBS_ZONE: pool.zone,
        }
        old = {"beta.kubernetes.io/arch": architecture, "beta.kubernetes.io/os": "linux"}
        zone_id = self._zone_ids.get(pool.zone)
        return own | old | ({labels.ZONE_ID: zone_id} if zone_id else {})
