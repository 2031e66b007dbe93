"""The CDK app: reads context and environment once, builds the stacks, synthesizes offline."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Final

import aws_cdk as cdk

from infra.config import ClusterConfig
from infra.context import ContextError, clusters
from infra.packaging.manifest import PackageError, check_package
from infra.provisioner import ProvisionerStack
from infra.shared import SharedStack
from infra.state import StateStack
from installation.stack_names import SHARED_STACK

TEMPLATES_ONLY: Final = "TEMPLATES_ONLY"
"""Environment variable: any value writes templates without the functions' code, to be read and not deployed."""


def main() -> None:
    """Write the templates to cdk.out.

    Raises:
        SystemExit: If the context or the package is invalid; the message says why. Nothing is written then.
    """
    app = cdk.App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    is_packaged = not os.environ.get(TEMPLATES_ONLY)
    account, region = os.environ.get("CDK_DEFAULT_ACCOUNT"), os.environ.get("CDK_DEFAULT_REGION")
    try:
        if is_packaged:
            check_package()
        add_clusters(app, account=account, region=region, is_packaged=is_packaged)
    except ContextError as error:
        sys.exit(f"the context of cdk.json, or what -c says:\n{error}")
    except PackageError as error:
        sys.exit(str(error))
    app.synth()


def add_clusters(app: cdk.App, *, account: str | None, region: str | None, is_packaged: bool) -> None:
    """Add the stacks of every cluster of the context.

    Raises:
        ContextError: If the context is invalid.
    """
    configs = clusters(app.node.get_all_context(), account=account, region=region)
    names = Counter(config.stack_name for config in configs)
    places = {_place(config): config for config in configs if config.share_capacity}
    shared = {
        place: SharedStack(
            app, SHARED_STACK + (place if len(places) > 1 else ""), stack_name=SHARED_STACK, env=_environment(config)
        )
        for place, config in places.items()
    }
    for config in configs:
        is_only_one = names[config.stack_name] == 1
        add_stacks(app, config, shared.get(_place(config)), is_only_one=is_only_one, is_packaged=is_packaged)


def add_stacks(
    app: cdk.App, config: ClusterConfig, shared: SharedStack | None, *, is_only_one: bool, is_packaged: bool
) -> None:
    """Add a cluster's two stacks. If stack names repeat, their ids within the app include account and region."""
    environment, place = _environment(config), "" if is_only_one else _place(config)
    name = config.stack_name
    state = StateStack(
        app,
        f"{config.state_stack_name}{place}",
        table_name=config.table_name,
        is_distributed=config.is_distributed,
        stack_name=config.state_stack_name,
        env=environment,
    )
    ProvisionerStack(
        app,
        f"{name}{place}",
        config=config,
        state=state,
        shared=shared if config.share_capacity else None,
        is_packaged=is_packaged,
        stack_name=name,
        env=environment,
    )


def _place(config: ClusterConfig) -> str:
    """Account and region, as a suffix of ids."""
    return f"-{config.account or 'default'}-{config.region}"


def _environment(config: ClusterConfig) -> cdk.Environment:
    return cdk.Environment(account=config.account, region=config.region)


if __name__ == "__main__":
    main()
