"""The answer of `drain`, as data and for people."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from cli.answers.plan_document import API_VERSION
from cli.removal.owned_resources import RemainingResources
from cli.terminal import output
from cli.terminal.output import counted
from core.api.objects import JsonObject
from core.lifecycle.records import ClaimRecord

_COLUMNS: Final = {
    "STATE": "state",
    "SUBJECT": "subject",
    "NODE": "node",
    "INSTANCE": "instance",
    "NODEPOOL": "nodePool",
    "WHY": "message",
}


def drain_document(
    cluster: str, remaining: RemainingResources, hindrances: Sequence[str], *, is_acting: bool, has_begun: bool
) -> JsonObject:
    """Return everything that remains; the `state` of claims is running, draining or terminating."""
    known = {record.instance_id for record in remaining.claims}
    others = [f"Instance/{name}" for name in remaining.instances if name not in known]
    others += [f"{resource.kind}/{obj['metadata']['name']}" for resource, obj in remaining.objects]
    others += [f"LaunchTemplate/{name}" for name in remaining.templates]
    others += [f"InstanceProfile/{profile['InstanceProfileName']}" for profile in remaining.profiles]
    return {
        "apiVersion": API_VERSION,
        "kind": "Drain",
        "cluster": cluster,
        "acting": is_acting,
        "begun": has_begun,
        "hindrances": list(hindrances),
        "items": [_claim(record) for record in remaining.claims],
        "leftovers": others,
    }


def drain_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format what remains, what prevents its removal, and what to do next; objects of the listed nodes are not named again."""
    items = document["items"]
    columns = {
        heading: key
        for heading, key in _COLUMNS.items()
        if any(item[key] for item in items) and (shows_all or key != "instance")
    }
    rows = [tuple(item[key] for key in columns.values()) for item in items]
    parts = [output.table(tuple(columns), rows)]
    parts += ["\n".join(document["leftovers"]) if shows_all else output.wrapped(_others(document))]
    return "\n\n".join(part for part in (*parts, output.wrapped(_next(document))) if part)


all_that_remains = partial(drain_table, shows_all=True)


def _others(document: JsonObject) -> str:
    listed = {item["subject"] for item in document["items"]}
    listed |= {f"Node/{item['node']}" for item in document["items"]}
    by_kind: dict[str, list[str]] = {}
    for subject in document["leftovers"]:
        kind, _, name = subject.partition("/")
        if subject not in listed:
            by_kind.setdefault(kind, []).append(name)
    return "\n".join(f"{kind}: {output.several(names)}" for kind, names in by_kind.items())


def remaining_names(document: JsonObject) -> str:
    """Return everything that remains, as kubectl names it."""
    return "\n".join([item["subject"].lower() for item in document["items"]] + document["leftovers"])


def _claim(record: ClaimRecord) -> JsonObject:
    deletion = record.deletion
    state = "running" if deletion is None else "draining" if deletion.terminated_at is None else "terminating"
    return {
        "subject": f"NodeClaim/{record.name}",
        "state": state,
        "node": record.node_name,
        "instance": record.instance_id,
        "nodePool": record.plan.node_pool,
        "message": deletion.message if deletion is not None else "",
    }


def _next(document: JsonObject) -> str:
    cluster, claims, others = document["cluster"], document["items"], document["leftovers"]
    lines = [f"Not now: {text}." for text in document["hindrances"]]
    if not claims and not others:
        lines.append(f"Nothing is left. Now `npx --yes aws-cdk@2.1148.1 destroy fleetwright-{cluster}`.")
    elif document["acting"] and not document["hindrances"]:
        lines.append("Time is up. The rest continues by itself; run the command again to watch it and to clean up.")
    elif document["acting"] and not document["begun"]:
        lines.append("Nothing was changed.")
    elif document["acting"]:
        lines.append("What is done stays done: run the command again to go on.")
    else:
        lines.append(
            f"`fleetwright drain --cluster {cluster} --all --yes` ends {counted(len(claims), 'node')}, all NodePools and "
            "EC2NodeClasses and what was made for them. Keep the manifests; pods find no new nodes afterwards."
        )
    return "\n".join(lines)
