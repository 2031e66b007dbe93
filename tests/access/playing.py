"""Plays a scenario with every function held to what the templates give it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from lambdas import bootstrap
from lambdas.wiring import BY_NAME, FunctionSpec
from simulator.world import World
from tests.access.recording import Access, CheckedKubernetes, CheckedSession, Verb
from tests.access.requests import Authorizations
from tests.access.template import ACCOUNT, REGION, Deployment

NODE_ROLE: Final = "FleetwrightNodeRole"


@contextmanager
def held_to(deployment: Deployment, verbs: Mapping[str, frozenset[Verb]]) -> Iterator[dict[str, Access]]:
    """While this lasts, simulated functions ask policy and ClusterRole first; function → what it asked for."""
    authorizations = Authorizations(NODE_ROLE)
    accesses = {name: Access(deployment.policy(name), verbs.get(name, frozenset()), authorizations) for name in BY_NAME}
    build = World._application

    def checked(world: World, spec: FunctionSpec) -> bootstrap.Application:
        settings, access = deployment.settings(spec.name), accesses[spec.name]
        authorizations.rename(world.account.settings, settings)
        session, api = world.account.session, world.cluster.api
        arn = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/{settings.cluster_name}"
        world.account.session = CheckedSession(session, access)  # type: ignore[assignment]
        world.cluster.api = CheckedKubernetes(api, access, arn)  # type: ignore[assignment]
        world._catalogues = None
        try:
            return build(world, spec)
        finally:
            world.account.session, world.cluster.api = session, api

    with patch.object(World, "_application", checked):
        yield accesses
