"""The CDK app: reads context and environment once, builds the stacks, synthesizes offline."""

from __future__ import annotations

import os

import aws_cdk as cdk

from infra.config import ClusterConfig
from infra.provisioner import ProvisionerStack
from infra.state import StateStack


def main() -> None:
    """Write the templates to cdk.out."""
    app = cdk.App(outdir=os.environ.get("CDK_OUTDIR", "cdk.out"))
    config = ClusterConfig.from_context(
        app.node.try_get_context,
        account=os.environ.get("CDK_DEFAULT_ACCOUNT"),
        region=os.environ.get("CDK_DEFAULT_REGION"),
    )
    environment = cdk.Environment(account=config.account, region=config.region)
    state = StateStack(app, f"fleetwright-{config.cluster_name}-state", table_name=config.table_name, env=environment)
    ProvisionerStack(app, f"fleetwright-{config.cluster_name}", config=config, state=state, env=environment)
    app.synth()


if __name__ == "__main__":
    main()
