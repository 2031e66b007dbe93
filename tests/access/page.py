"""Writes `docs/reference/permissions.md`: what each function may do, why, and whether the recorded worlds use it.

`python -m tests.access.page` writes it, a test compares it. It takes half a minute: templates are synthesized, worlds played.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from installation.cluster_roles import RULES_FOR_APPROVAL, RULES_FOR_STEERING, RULES_FOR_SURGE, RULES_OF, verbs
from installation.wiring import ALL_BY_NAME
from tests.access.iam import Statement
from tests.access.reasons import BY_LAMBDA, SELDOM, SELDOM_DONE, SELDOM_LISTED, WHY_ACTION, WHY_DONE, WHY_LISTED
from tests.access.recording import Access, Verb
from tests.access.template import Deployment
from tests.access.world import played
from tests.infra.conftest import ROOT, synthesize

PAGE: Final = ROOT / "docs" / "reference" / "permissions.md"
CONTEXT: Final = {"pausingAlarms": "checkout-errors", "mode": "approve", "partNodes": 1, "distributeFrom": 1}
"""Every optional brake is on, commands wait for approval, and functions of their own decide about parts.

So every permission is on the page."""

WRITTEN_BY: Final = "<!-- Written by `make docs`. Change the code, not this page. -->"
PLAYED: Final = "played"
_WHAT: Final = (
    "What each function may do, in AWS by its role and in the cluster by its ClusterRole, with every option on "
    "([a role and a group for each function](../engineering/handbook/permissions.md#a-role-and-a-group-for-each-function)). "
    "Resources have the names of the templates; `CLUSTER` and `REGION` are yours."
)
_ASKED: Final = (
    "The last column holds it against the calls. `played`: the function asks for it in the simulated worlds of the suite, in "
    "which a call that is not allowed is refused and fails the suite. `by Lambda`: our code does not ask for it. Otherwise it "
    "says when it is asked for; that is a reason that people wrote down, not a call that was seen."
)


def text(deployment: Deployment, accesses: Mapping[str, Access]) -> str:
    """Return the whole page. Raises KeyError for a permission without a reason in `tests.access.reasons`."""
    parts = (part for spec in ALL_BY_NAME.values() for part in _function(spec.name, deployment, accesses[spec.name]))
    return "\n\n".join(("# Permissions", WRITTEN_BY, _WHAT, _ASKED, *parts)) + "\n"


def _function(name: str, deployment: Deployment, access: Access) -> Iterator[str]:
    yield f"## {name}"
    statements = enumerate(deployment.policy(name).statements)
    rows = [_action(name, a, n, statement, access) for n, statement in statements for a in statement.actions]
    yield _table(("AWS action", "resource", "condition", "why", "asked for"), sorted(set(rows)))
    if name not in RULES_OF:
        yield "It has no access to the cluster."
        return
    optional = (RULES_FOR_SURGE, RULES_FOR_APPROVAL, RULES_FOR_STEERING)
    granted = verbs((*RULES_OF[name], *(rule for rules in optional for rule in rules.get(name, ()))))
    yield _table(
        ("API group", "resource", "verb", "why", "asked for"), [_verb(name, verb, access) for verb in sorted(granted)]
    )


def _action(function: str, action: str, number: int, statement: Statement, access: Access) -> tuple[str, ...]:
    where = "<br>".join(sorted({_resource(found) for found in statement.resources}))
    when = "<br>".join(
        f"`{_named(key)}` {'like' if operator.endswith('Like') else 'is'} {' or '.join(f'`{_named(v)}`' for v in values)}"
        for operator, keys in sorted(statement.conditions.items())
        for key, values in sorted(keys.items())
    )
    why = WHY_ACTION.get(action) or BY_LAMBDA[action]
    if (number, action) in access.granted:
        asked = PLAYED
    elif action in BY_LAMBDA:
        why, asked = BY_LAMBDA[action], "by Lambda"
    else:
        asked = SELDOM.get(function, {}).get(action) or "played with other resources"
    return f"`{action}`", where, when, why, asked


def _verb(function: str, verb: Verb, access: Access) -> tuple[str, ...]:
    group, resource, done = verb
    if verb in access.verbs:
        asked = PLAYED
    elif verb in verbs(RULES_FOR_SURGE.get(function, ())):
        asked = "with `surgeRestarts`, for which the ClusterRole is printed with `--surge`"
    elif verb in verbs(RULES_FOR_APPROVAL.get(function, ())):
        asked = "with `mode: approve`, for which the ClusterRole is printed with `--approve`"
    elif verb in verbs(RULES_FOR_STEERING.get(function, ())):
        asked = "with `steerScaleIn`, for which the ClusterRole is printed with `--steer`"
    else:
        asked = SELDOM_LISTED[resource] if done == "list" else SELDOM_DONE[function, *verb]
    why = WHY_LISTED[resource] if done == "list" else WHY_DONE[resource, done]
    return group or "core", f"`{resource}`", f"`{done}`", why, asked


def _resource(arn: str) -> str:
    return f"`{_named(arn.split(':', 5)[-1])}`"


def _named(written: str) -> str:
    """Return the name without the account, the region, and the digest at the end of a logical name."""
    named = written.replace("us-east-1", "REGION").replace("123456789012", "ACCOUNT")
    named = re.sub(r"(?<=[a-z])[0-9A-F]{8}(?=$|[/:])", "", named)
    return re.sub(r"\bfleetwright(?=$|/\*$|/mode$)", "CLUSTER", named)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> int:
    """Write the page if it has changed, and print its path."""
    with tempfile.TemporaryDirectory() as folder:
        cdk, worlds = Path(folder, "cdk"), Path(folder, "worlds")
        worlds.mkdir()
        deployment = Deployment(synthesize(cdk, CONTEXT))
        written = text(deployment, played(deployment, worlds))
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != written:
        PAGE.write_text(written, encoding="utf-8")
        sys.stderr.write(f"wrote {PAGE.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
