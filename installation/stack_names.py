"""Names of an installation: infra deploys stacks and roles under them, and the command line finds them by the cluster."""

from __future__ import annotations

import hashlib
import re
from typing import Final

SHARED_STACK: Final = "fleetwright"
"""The stack that exists once per account and region. The names of a cluster's stacks have a suffix."""

STATE_SUFFIX: Final = "-state"

SLUG_MAX: Final = 52
"""Most characters of a cluster's name within resource names: the tightest limit is a schedule group's, 64 with our prefix."""

ROLE_NAME_MAX: Final = 64
"""Characters of an IAM role's name."""


def stack_name(cluster: str) -> str:
    """Return the name of the cluster's provisioner stack.

    If CloudFormation does not accept the cluster's name, or another cluster's state stack could have it, the stack's name ends
    with a digest of the cluster's name.
    """
    slug = re.sub(r"[^0-9A-Za-z-]", "-", cluster)
    if slug != cluster or len(slug) > SLUG_MAX or slug.endswith(STATE_SUFFIX):
        slug = _shortened(slug, SLUG_MAX, of=cluster)
    return f"{SHARED_STACK}-{slug}"


def state_stack_name(stack: str) -> str:
    """Return the name of the state stack beside a provisioner stack."""
    return stack + STATE_SUFFIX


def role_name(stack: str, region: str, function: str) -> str:
    """Return the name of a function's role. It is stable, so that policies of keys and organizations can name it."""
    name = f"{stack}-{region}-{function.replace('_', '-')}"
    return name if len(name) <= ROLE_NAME_MAX else _shortened(name, ROLE_NAME_MAX, of=name)


def _shortened(name: str, length: int, *, of: str) -> str:
    """Return a name of this length that begins like `name` and ends with a digest of `of`, so that two names do not collide."""
    digest = hashlib.sha256(of.encode()).hexdigest()[:6]
    return f"{name[: length - len(digest) - 1]}-{digest}"
