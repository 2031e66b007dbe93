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
from infra.state import StateStack

TEMPLATES_ONLY: Final = "TEMPLATES_ONLY"
"""Environment variable: with any value the templates are written without functions in them, to be read and not deployed."""


def main() -> None:
    """Write the templates to cdk.out.

    Raises:
        SystemExit: With what is wrong with the context or with the package, before anything is written.
    """
    app = cdk.App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    is_packaged = not os.environ.get(TEMPLATES_ONLY)
    try:
        configs = clusters(
            app.node.get_all_context(),
            account=os.environ.get("CDK_DEFAULT_ACCOUNT"),
            region=os.environ.get("CDK_DEFAULT_REGION"),
        )
    except ContextError as error:
        sys.exit(f"the context of cdk.json, or what -c says:\n{error}")
    try:
        if is_packaged:
            check_package()
    except PackageError as error:
        sys.exit(str(error))
    names = Counter(config.stack_name for config in configs)
    for config in configs:
        add_stacks(app, config, is_only_one=names[config.stack_name] == 1, is_packaged=is_packaged)
    app.synth()


def add_stacks(app: cdk.App, config: ClusterConfig, *, is_only_one: bool, is_packaged: bool) -> None:
    """Add a cluster's two stacks. Ids within the app say account and region too where names repeat."""
    environment = cdk.Environment(account=config.account, region=config.region)
    place = "" if is_only_one else f"-{config.account or 'default'}-{config.region}"
    name = config.stack_name
    state = StateStack(
        app, f"{name}-state{place}", table_name=config.table_name, stack_name=f"{name}-state", env=environment
    )
    ProvisionerStack(
        app, f"{name}{place}", config=config, state=state, is_packaged=is_packaged, stack_name=name, env=environment
    )


if __name__ == "__main__":
    main()
