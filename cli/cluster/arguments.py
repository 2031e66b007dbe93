"""Arguments that select the cluster or installation to read, and the credentials."""

from __future__ import annotations

import argparse
from typing import Any

from cli.errors import InputError


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add `--context`: the cluster to read if no file is given."""
    parser.add_argument(
        "--context", metavar="NAME", help="without -f: the kubeconfig's context to read (default: the current one)"
    )


def add_namespace(parser: argparse.ArgumentParser) -> None:
    """Add `--namespace`: whose pods the answer is about."""
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", help="answer for the pods of one namespace; the whole cluster is read"
    )


def add_installation(parser: argparse.ArgumentParser, *, is_required: bool = False) -> None:
    """Add `--cluster` and how to reach it; `--region` is the region's catalogue elsewhere and the cluster's region here."""
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        required=is_required,
        help="an EKS cluster that the functions manage: its claims, commands and brakes count, too",
    )
    add_access(parser)


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the options for AWS credentials and the stack's name."""
    parser.add_argument(
        "--profile",
        metavar="NAME",
        help="the profile of the AWS configuration (default: as for the AWS CLI)",
    )
    parser.add_argument(
        "--stack",
        metavar="NAME",
        help="with --cluster: its stack (default: the name that it is deployed under, fleetwright-CLUSTER)",
    )


def add_all(parser: argparse.ArgumentParser, which: Any = None) -> None:
    """Add `--all` (to the group `which` of options that exclude it) and `--role`."""
    text = (
        "every cluster with an installation in the account, and in those of --role; --region takes several with commas"
    )
    (which or parser).add_argument("--all", action="store_true", help=text)
    parser.add_argument(
        "--role",
        metavar="ARN",
        action="append",
        default=[],
        help="with --all: an IAM role that is assumed instead of using the credentials as they are; may be given again",
    )


def refuse_role_alone(arguments: argparse.Namespace) -> None:
    """Stop if `--role` is given without `--all`. Raises InputError."""
    if arguments.role and not arguments.all:
        raise InputError("--role is for --all", hint="--profile names the credentials for one cluster")
