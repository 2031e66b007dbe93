"""What is done with every field of the definitions, found out by experiment: docs/reference/karpenter-fields.md.

`python -m tests.oracle.field_table` writes the page; with folders of definitions it lists their fields instead:

    python -m tests.oracle.field_table FOLDER             # of the definitions in a folder, as pkg/apis/crds of the provider
    python -m tests.oracle.field_table OLD NEW            # what a release adds and removes, and what crds/ lacks of it
    python -m tests.oracle.field_table FOLDER --record VERSION    # keep them: the tests compare crds/ with the recording

For the page, a field is changed and left out in objects that have every
field, and what the functions make of the object before and after is compared: its translation, its hash, a plan and a
disruption with it, and the requests to EC2 for a node of it. A field is validated if a value of a wrong type is refused.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from core import api, labels
from core.ami_families.family import Cluster
from core.catalogue.build import build_catalogue
from core.catalogue.node_class import read_node_class
from core.catalogue.reservations import with_reservations
from core.disruption import disrupt
from core.errors import InvalidInputError
from core.launch.request import render_launch
from core.lifecycle.node_claim_objects import hand_made_plan
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.plan import ObjectRef, Plan, PlannedClaim
from core.model.snapshot import FeatureGates, Options, Snapshot
from core.scheduling import schedule
from lambdas.controllers.launching import order_of, requested
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.builders import NOW, a_node_of, a_pod
from tests.oracle.request_cases import TYPES, resolved

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = Path(__file__).with_name("karpenter_fields.txt")
KINDS: Final = ("NodePool", "NodeClaim", "NodeOverlay", "EC2NodeClass")


def fields_of(folder: Path) -> list[str]:
    """The paths of all fields below `spec` of the kinds that we read, sorted."""
    found = set[str]()
    for path in sorted(folder.glob("*.yaml")):
        for definition in yaml.safe_load_all(path.read_text()):
            if not definition or definition.get("spec", {}).get("names", {}).get("kind") not in KINDS:
                continue
            kind = definition["spec"]["names"]["kind"]
            newest = next(version for version in definition["spec"]["versions"] if version["storage"])
            schema = newest["schema"]["openAPIV3Schema"]["properties"]["spec"]
            found.update(f"{kind} {path}" for path in _paths(schema, "spec"))
    return sorted(found)


def _paths(schema: dict[str, Any], at: str) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield f"{at}.{name}"
        yield from _paths(inner, f"{at}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from _paths(schema["items"], f"{at}[]")


def recorded() -> list[str]:
    """The paths in the definitions of the Karpenter that the tests compare with."""
    return [line for line in RECORDED.read_text().splitlines() if not line.startswith("#")]


PAGE: Final = ROOT / "docs/reference/karpenter-fields.md"
OBJECTS: Final = Path(__file__).with_name("field_objects.yaml")
REGION: Final = "us-east-1"
COLUMNS: Final = ("read", "validated", "planned", "launched", "hashed")
CLUSTER: Final = Cluster(
    name="shop", endpoint="https://api.example", certificate_authority="Q0E=", service_cidr="10.1.0.0/16"
)

CHANGED: Final[dict[str, Any]] = {
    "spec.amiFamily": "AL2",
    "spec.amiSelectorTerms[].alias": "al2023@v20260101",
    "spec.blockDeviceMappings[].ebs.volumeType": "io2",
    "spec.capacity": {"example.com/slots": "9"},
    "spec.disruption.budgets[].nodes": "0",
    "spec.disruption.budgets[].reasons": ["Drifted"],
    "spec.disruption.budgets[].schedule": "0 0 1 1 *",
    "spec.disruption.consolidateAfter": "Never",
    "spec.disruption.consolidationPolicy": "WhenEmpty",
    "spec.limits": {"cpu": "1"},
    "spec.nodeClassRef.name": "other",
    "spec.networkInterfaces[].interfaceType": "efa-only",
    "spec.requirements[].key": labels.ZONE,
    "spec.requirements[].operator": "NotIn",
    "spec.requirements[].values": ["m5.large"],
    "spec.template.spec.nodeClassRef.name": "other",
    "spec.template.spec.requirements[].key": labels.ZONE,
    "spec.template.spec.requirements[].operator": "NotIn",
    "spec.template.spec.requirements[].values": ["spot"],
    "spec.priceAdjustment": "+900%",
    "spec.price": "9.5",
    "spec.replicas": 3,
}
"""Path -> another value, where the rules below give none that is valid."""

_OTHER: Final = {
    "PreferNoSchedule": "NoSchedule",
    "NoSchedule": "NoExecute",
    "NoExecute": "NoSchedule",
    "enabled": "disabled",
    "disabled": "enabled",
    "required": "optional",
    "targeted": "open",
    "interface": "efa-only",
    "In": "NotIn",
    "RAID0": "",
}

KUBELET: Final = "spec.kubelet."

_KUBELET_VALUES: Final[tuple[Any, ...]] = (
    True,
    60,
    0.5,
    "5m",
    "60s",
    "60",
    "20Mi",
    "7%",
    "static",
    "none",
    "best-effort",
    "container",
    "Static",
    "cgroupfs",
    "10.1.0.77",
    "a",
    ["10.1.0.77"],
    ["pods"],
    ["0-1"],
    ["VersionTLS12"],
    {"a": "b"},
    {"cpu": "100m"},
    {"memory.available": "7%"},
    {"a": True},
    [{"a": "b"}],
    [],
    {},
)

EXPLAINED: Final = {
    "EC2NodeClass spec.amiSelectorTerms": "finds `status.amis`",
    "EC2NodeClass spec.subnetSelectorTerms": "finds `status.subnets`",
    "EC2NodeClass spec.securityGroupSelectorTerms": "finds `status.securityGroups`",
    "EC2NodeClass spec.capacityReservationSelectorTerms": "finds `status.capacityReservations`",
    "EC2NodeClass spec.role": "makes `status.instanceProfile`",
    "EC2NodeClass spec.placementGroupSelector": "finds the placement group",
    "EC2NodeClass spec.kubelet.registerWithTaints": "refused, as in Karpenter: a NodePool has taints",
    "NodeClaim spec.taints[].timeAdded": "accepted, as in Karpenter: Kubernetes writes it on nodes",
    "NodeClaim spec.startupTaints[].timeAdded": "accepted, as in Karpenter: Kubernetes writes it on nodes",
    "NodeClaim spec.nodeClassRef.group": "another group is another provider's",
}
"""Fields, with all below them, whose effect the experiment does not see, such as that of a selector on the class' status."""


@cache
def objects() -> tuple[dict[str, Any], ...]:
    """The objects that have the fields."""
    return tuple(yaml.safe_load_all(OBJECTS.read_text()))


def rows(of_kind: str = "", of_path: str = "") -> Iterator[tuple[str, str, dict[str, bool]]]:
    """Kind, path and what is done with it, of all fields or of those of a kind and a path."""
    for line in fields_of(ROOT / "crds"):
        kind, path = line.split(" ")
        if kind != (of_kind or kind) or path != (of_path or path):
            continue
        having = [obj for obj in objects() if obj["kind"] == kind and _present(obj, path)]
        effects = dict.fromkeys(COLUMNS, False)
        if not having and path.startswith(KUBELET):
            having = list(_with_kubelet(path))
            effects["validated"] = not having
        for obj in having:
            for name, is_so in effects_of(obj, path).items():
                effects[name] |= is_so
        yield kind, path, effects


def _with_kubelet(path: str) -> Iterator[dict[str, Any]]:
    """A class that has the field of kubelet, with the first value that our rules accept; none if they accept none."""
    for value in _KUBELET_VALUES:
        inner: Any = copy.deepcopy(value)
        for name in reversed(path.removeprefix(KUBELET).split(".")):
            inner = {name.removesuffix("[]"): [inner]} if name.endswith("[]") else {name: inner}
        written = _class_manifest()
        written["spec"] = {**written["spec"], "kubelet": inner}
        if not api.problems({key: part for key, part in written.items() if key != "status"}):
            yield written
            return


def effects_of(obj: dict[str, Any], path: str) -> dict[str, bool]:
    """Which outcomes change with the field."""
    before = _outcomes_before(msgspec.json.encode(obj))
    found = dict.fromkeys(COLUMNS, False)
    for changed in _variants(obj, path):
        try:
            after = outcomes(changed)
        except InvalidInputError:
            continue
        for name, value in before.items():
            found[name] |= after[name] != value
    wrong = _with(obj, path, lambda old: "text" if isinstance(old, (dict, list)) else {"wrong": "type"})
    found["validated"] = bool(api.problems(wrong)) and not api.problems(obj)
    return found


@cache
def _outcomes_before(obj: bytes) -> dict[str, Any]:
    """What is made of an object of which many fields are changed."""
    return outcomes(msgspec.json.decode(obj))


def outcomes(obj: dict[str, Any]) -> dict[str, Any]:
    """What the functions make of the object.

    Raises:
        InvalidInputError: If they cannot read it.
    """
    of_kind = {
        "NodePool": _of_node_pool,
        "EC2NodeClass": _of_node_class,
        "NodeClaim": _of_node_claim,
        "NodeOverlay": _of_overlay,
    }
    return of_kind[obj["kind"]](obj)


def _of_node_pool(obj: dict[str, Any]) -> dict[str, Any]:
    pool = api.node_pool(obj)
    ready = msgspec.structs.replace(pool, is_ready=True, template_hash="")
    read = msgspec.to_builtins(msgspec.structs.replace(pool, template_hash="", own_annotations={}))
    seen = _snapshot(_class_manifest(), node_pools=(ready, _rival()))
    return {"read": read, "hashed": pool.template_hash, **_planned(seen)}


def _of_node_class(obj: dict[str, Any]) -> dict[str, Any]:
    manifest = resolved(obj, obj.get("status", {}))
    node_class = read_node_class(manifest)
    seen = _snapshot(manifest)
    return {
        "read": msgspec.to_builtins(msgspec.structs.replace(node_class, status=type(node_class.status)())),
        "hashed": api.node_class(manifest).spec_hash,
        "planned": msgspec.to_builtins(seen.catalogue.types_for("default")),
        "launched": _rendered(schedule(seen), seen, manifest),
    }


def _of_node_claim(obj: dict[str, Any]) -> dict[str, Any]:
    claim = api.node_claim(obj)
    seen = _snapshot(_class_manifest())
    planned = hand_made_plan(obj, seen, {})
    is_planned = isinstance(planned, PlannedClaim)
    rendered = _requests(planned, seen, _class_manifest()) if isinstance(planned, PlannedClaim) else str(planned)
    return {
        "read": msgspec.to_builtins(claim),
        "hashed": "",
        "planned": msgspec.to_builtins(planned) if is_planned else str(planned),
        "launched": rendered,
    }


def _of_overlay(obj: dict[str, Any]) -> dict[str, Any]:
    overlay = api.node_overlay(obj)
    rival = api.node_overlay(
        {
            **obj,
            "metadata": {"name": "rival"},
            "spec": {**obj["spec"], "price": "7", "weight": 5} | {"priceAdjustment": None},
        }
    )
    pods = (a_pod("p"), a_pod("s", extra={"example.com/slots": "7"}))
    seen = _snapshot(_class_manifest(), overlays=(overlay, rival), pods=pods)
    return {"read": msgspec.to_builtins(overlay), "hashed": "", **_planned(seen)}


def _rival() -> NodePool:
    """Another NodePool, which a heavier one precedes."""
    pool = api.node_pool(next(obj for obj in objects() if obj["metadata"]["name"] == "plain"))
    return msgspec.structs.replace(pool, name="rival", is_ready=True, weight=5)


def _class_manifest() -> dict[str, Any]:
    terms = [{"tags": {"a": "b"}}]
    spec = {"role": "r", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": terms}
    written = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {**spec, "securityGroupSelectorTerms": terms},
    }
    return resolved(written, {})


def _snapshot(manifest: dict[str, Any], **changes: Any) -> Snapshot:
    catalogue = _catalogue(msgspec.json.encode(manifest, order="sorted"))
    pool = api.node_pool(next(obj for obj in objects() if obj["metadata"]["name"] == "plain"))
    fields: dict[str, Any] = {
        "node_pools": (msgspec.structs.replace(pool, is_ready=True),),
        "node_classes": (api.node_class(manifest),),
        "pods": (a_pod("p"), a_pod("q", cpu="3")),
        "options": Options(feature_gates=FeatureGates(node_overlay=True, static_capacity=True)),
        **changes,
    }
    return Snapshot(now=NOW, cluster="shop", catalogue=catalogue, **fields)


@cache
def _catalogue(manifest: bytes) -> Catalogue:
    written = msgspec.json.decode(manifest)
    shapes = tuple(shape for shape in builtin_shapes() if shape.instance_type in TYPES)
    return with_reservations(build_catalogue(shapes, builtin_market(REGION), (written,)), (written,), {}, NOW)


def _planned(seen: Snapshot) -> dict[str, Any]:
    plan = schedule(seen)
    return {"planned": _plans(plan, seen), "launched": _rendered(plan, seen, _class_manifest())}


def _plans(plan: Plan, seen: Snapshot) -> Any:
    """The plan for the pods, and what is disrupted of an empty, a nearly empty and a drifted node."""
    pool = seen.node_pools[0]
    found = next(one for one in seen.catalogue.types_for("default") if one.name == "m5.xlarge")
    reference = ObjectRef(labels.AWS_GROUP, "EC2NodeClass", "default")
    pairs = [a_node_of(found, name, pool=pool.name) for name in ("empty", "little")]
    claims = tuple(msgspec.structs.replace(claim, node_class=reference) for claim, _ in pairs)
    little = a_pod("little", node_name="little", phase="Running", is_ready=True)
    later = msgspec.structs.replace(seen, node_claims=claims, nodes=tuple(node for _, node in pairs), pods=(little,))
    gone = msgspec.structs.replace(later, node_claims=(), nodes=())
    wave, static = disrupt(later), disrupt(gone)
    return [
        [msgspec.to_builtins(msgspec.structs.replace(claim, annotations={})) for claim in plan.claims],
        repr(wave.commands),
        repr([refusal.reason for refusal in getattr(wave, "kept", ())]),
        repr(static.commands),
    ]


def _rendered(plan: Plan, seen: Snapshot, manifest: dict[str, Any]) -> Any:
    return [_requests(claim, seen, manifest) for claim in plan.claims]


def _requests(planned: PlannedClaim, seen: Snapshot, manifest: dict[str, Any]) -> Any:
    record = requested(planned, planned.name, "token", seen, NOW)
    if not isinstance(record, ClaimRecord):
        return str(record)
    order = order_of(record, manifest, seen.catalogue, cluster="shop")
    rendered = render_launch(order, read_node_class(manifest), CLUSTER)
    return [rendered.request, [template.data for template in rendered.templates]]


# Paths: `spec.a[].b` is in the last entry of `a` that has it.


def _present(obj: dict[str, Any], path: str) -> bool:
    return bool(list(_holders(obj, path)))


def _holders(obj: dict[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str]]:
    places: list[Any] = [obj]
    *inner, last = path.split(".")
    for name in inner:
        values = [place[name.removesuffix("[]")] for place in places if name.removesuffix("[]") in place]
        places = [entry for value in values for entry in value] if name.endswith("[]") else values
    yield from ((place, last) for place in places if isinstance(place, dict) and last in place)


def _with(obj: dict[str, Any], path: str, change: Any) -> dict[str, Any]:
    changed = copy.deepcopy(obj)
    *_, (holder, key) = _holders(changed, path)
    holder[key] = change(holder[key])
    return changed


def _variants(obj: dict[str, Any], path: str) -> Iterator[dict[str, Any]]:
    """The object without the field, and with another value."""
    without = copy.deepcopy(obj)
    *_, (holder, key) = _holders(without, path)
    del holder[key]
    yield without
    yield _with(obj, path, lambda old: copy.deepcopy(CHANGED[path]) if path in CHANGED else _changed(old))


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return value[:-1]
    if isinstance(value, dict):
        return {key: _changed(inner) for key, inner in value.items()}
    if value in _OTHER:
        return _OTHER[value]
    number = "".join(takewhile_digits(str(value)))
    return f"{int(number) + 1}{str(value)[len(number) :]}" if number else f"{value}x"


def takewhile_digits(text: str) -> Iterator[str]:
    """The digits at its begin."""
    for character in text:
        if not character.isdecimal():
            return
        yield character


# The page.

_INTRODUCTION: Final = """# Fields of Karpenter's objects

<!-- Written by `python -m tests.oracle.field_table`. Change the code, not this page. -->

Every field of our definitions, which have every field of Karpenter 1.15's, and what is done with it, \
found out by experiment: each field is changed and left out, and what follows is compared.

- *Read*: the functions' translation of the object changes.
- *Validated*: a value of a wrong type is refused.
- *Planned*: a plan, a disruption or the sizes of instance types change.
- *Launched*: the requests to EC2 change.
- *Hashed*: nodes that were made before count as drifted.

A field that is in no row is [named, not dropped in silence](../engineering/handbook/catalogue-and-api.md#unknown-fields).
"""


def page() -> str:
    """The page as Markdown."""
    found = list(rows())
    parts = [_INTRODUCTION]
    for kind in ("NodePool", "EC2NodeClass", "NodeClaim", "NodeOverlay"):
        head = f"## {kind}\n\n| field | {' | '.join(COLUMNS)} | through |\n|{' --- |' * (len(COLUMNS) + 2)}\n"
        lines = [
            f"| `{path}` | {' | '.join('yes' if effects[name] else '' for name in COLUMNS)} | {explained(f'{kind} {path}')} |\n"
            for of_kind, path, effects in found
            if of_kind == kind
        ]
        parts.append(head + "".join(lines))
    return "\n".join(parts)


def explained(row: str) -> str:
    """What the field does through the class' status; empty for others."""
    return next(
        (said for field, said in EXPLAINED.items() if row == field or row.startswith((f"{field}.", f"{field}["))), ""
    )


def main() -> None:
    """Write the page; with folders print or record the paths of their fields, or compare two releases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--record", metavar="VERSION", help="keep the paths as those of this version")
    given = parser.parse_args()
    if not given.folders:
        PAGE.write_text(page())
        sys.stdout.write(f"{PAGE.name}\n")
        return
    newest = fields_of(given.folders[-1])
    if given.record:
        head = f"# Fields of Karpenter's definitions, {given.record}: python -m tests.oracle.field_table\n"
        RECORDED.write_text(head + "".join(f"{line}\n" for line in newest))
    elif len(given.folders) == 1:
        sys.stdout.write("".join(f"{line}\n" for line in newest))
    else:
        before, ours = set(fields_of(given.folders[0])), set(fields_of(ROOT / "crds"))
        for line in sorted(before ^ set(newest)):
            change = "removed" if line in before else "added  " if line in ours else "MISSING"
            sys.stdout.write(f"{change} {line}\n")


if __name__ == "__main__":
    main()
