"""Claims of one shape share a launch: one request for several instances, under one token.

Before the request, each claim stores the token, the number of claims that share it, and the index of its instance. If the
response is lost, each claim looks for an instance of the launch that no claim has; without one it is launched alone. Instances
start with the launch's name in place of the claim's; `reconcile` names them after their claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.capacity import EFA
from core.launch.placement import tenancy
from core.launch.render import NITRO_SANDBOX
from core.lifecycle.rebuilding import claim_tags
from core.lifecycle.records import ClaimRecord

SHARES_MAX: Final = 50
"""The most claims of one launch: a lost response concerns all of them, and 1,000 nodes take 20 requests."""


def share_launches(
    records: Iterable[ClaimRecord], token_of: Callable[[str], str], *, at_most: int = SHARES_MAX
) -> list[ClaimRecord]:
    """Return the claims, in the order given, with those of one shape sharing launches of at most `at_most` instances.

    `token_of` gives the token of a launch by the name of its first claim. Claims that were requested before keep theirs.
    """
    given = list(records)
    launches: dict[Any, list[int]] = {}
    shared = list(given)
    for index, record in enumerate(given):
        if not record.attempts:
            launches.setdefault(_shape(record), []).append(index)
    for members in launches.values():
        for start in range(0, len(members), at_most):
            together = members[start : start + at_most]
            if len(together) > 1:
                token = token_of(given[together[0]].name)
                for share, index in enumerate(together):
                    shared[index] = msgspec.structs.replace(
                        given[index], token=token, shares=len(together), share=share
                    )
    return shared


def launch_name(record: ClaimRecord) -> str:
    """Return the name of a claim's instance at launch: the claim's name, or that of its shared launch."""
    return record.name if record.shares == 1 else f"launch-{record.token}"


def is_unnamed(tags: Mapping[str, str]) -> bool:
    """Whether an instance with these tags does not yet have the name of a claim."""
    return labels.LAUNCH in tags and tags.get(labels.CLAIM) == tags[labels.LAUNCH]


def name_tags(claim: str) -> dict[str, str]:
    """Return the tags that name an instance after its claim."""
    return {"Name": claim, labels.NODECLAIM: claim, labels.CLAIM: claim}


def in_launches(records: Sequence[ClaimRecord]) -> list[list[ClaimRecord]]:
    """Return the claims by launch, in the order of the first of each."""
    launches: dict[str, list[ClaimRecord]] = {}
    for record in records:
        launches.setdefault(record.token, []).append(record)
    return list(launches.values())


def _shape(record: ClaimRecord) -> tuple[Any, ...]:
    """Return everything in a claim that the request to EC2 depends on."""
    plan = record.plan
    return (
        plan.node_pool,
        plan.node_class.name,
        record.offerings,
        record.is_ranked,
        tuple(sorted(plan.labels.items())),
        plan.taints,
        plan.startup_taints,
        tuple(sorted(claim_tags(plan).items())),
        tenancy(plan.requirements),
        tuple(plan.resources.get(name, 0) > 0 for name in (EFA, NITRO_SANDBOX)),
    )
