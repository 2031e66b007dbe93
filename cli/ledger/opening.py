"""Opens the ledger that a command's arguments name."""

from __future__ import annotations

import argparse

from cli.cluster import installation
from cli.errors import InputError
from cli.ledger import storage
from cli.ledger.storage import LedgerStorage


def opened_ledger(arguments: argparse.Namespace) -> LedgerStorage:
    """Return the ledger of `--ledger`, without it the one that the functions of `--cluster` keep.

    Raises:
        InputError: If neither is given, or it cannot be found with these credentials.
    """
    region, profile = arguments.region, arguments.profile
    if arguments.ledger:
        return storage.open_ledger(arguments.ledger, region=region, profile=profile)
    if not arguments.cluster:
        raise InputError(
            "whose decisions?", hint="--cluster NAME or --ledger FOLDER|s3://BUCKET; `log` also takes --all"
        )
    found = installation.find_installation(arguments.cluster, region=region, profile=profile, stack=arguments.stack)
    return storage.ledger_of_bucket(found.session, found.settings.bucket_name)
