"""Plays a scenario with every function restricted to its permissions in the templates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from unittest.mock import patch

from installation.cluster_roles import RULES_OF, verbs
from installation.wiring import BY_NAME, FunctionSpec
from lambdas.application.controllers import Application
from simulator.run import run
from simulator.world import World
from tests.access import world
from tests.access.recording import Access, CheckedKubernetes, CheckedSession, Verb
from tests.access.requests import Authorizations
from tests.access.template import ACCOUNT, REGION, Deployment

NODE_ROLE: Final = "FleetwrightNodeRole"


def played(deployment: Deployment, folder: Path) -> dict[str, Access]:
    """Return each function's calls in the worlds of `tests.access.world`, checked against its role; `folder` is empty."""
    with held_to(deployment, {name: verbs(rules) for name, rules in RULES_OF.items()}) as accesses:
        for scenario in (world.life, world.market):
            own = folder / scenario.__name__
            own.mkdir()
            run(scenario(own), ledger=own / "ledger")
    return accesses


@contextmanager
def held_to(
    deployment: Deployment, allowed: Mapping[str, frozenset[Verb]], functions: Iterable[str] = BY_NAME
) -> Iterator[dict[str, Access]]:
    """Check calls of the deployed functions by policy and ClusterRole within this block; yields function → its calls."""
    authorizations = Authorizations(NODE_ROLE)
    accesses = {
        name: Access(deployment.policy(name), allowed.get(name, frozenset()), authorizations) for name in functions
    }
    build = World.application

    def checked(of: World, spec: FunctionSpec) -> Application:
        settings, access = deployment.settings(spec.name), accesses[spec.name]
        authorizations.rename(of.account.settings, settings)
        session, api = of.account.session, of.cluster.api
        arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{settings.cluster_name}"
        of.account.session = CheckedSession(session, access)  # type: ignore[assignment]
        of.cluster.api = CheckedKubernetes(api, access, arn)  # type: ignore[assignment]
        of._catalogues = None
        try:
            return build(of, spec)
        finally:
            of.account.session, of.cluster.api = session, api

    with patch.object(World, "application", checked):
        yield accesses
