"""`fleetwright catalog fetch`: reads a region's instance types and prices with the user's own AWS permissions."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli.arguments import REGION_DEFAULT, add_filenames, sizing_settings
from cli.errors import DONE, InputError

if TYPE_CHECKING:
    from adapters.ports import CatalogueSource

_EPILOG: Final = """examples:
  fleetwright catalog fetch --region eu-west-1 --to eu-west-1.json.gz
  fleetwright plan -f cluster.yaml --catalog eu-west-1.json.gz
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("what", choices=("fetch",), metavar="fetch", help="read it from EC2 and the Pricing service")
    parser.add_argument("--region", default=REGION_DEFAULT, help="the region to read (default: %(default)s)")
    parser.add_argument("--profile", help="AWS profile; without it the environment decides, as for the AWS CLI")
    parser.add_argument(
        "--to", type=Path, metavar="FILE", help="where to write, packed if it ends in .gz (default: stdout)"
    )
    add_filenames(parser, "EC2NodeClasses, which size types")


def run(arguments: argparse.Namespace) -> int:
    """Read the region and write a catalogue for `--catalog`.

    Raises:
        InputError: If AWS refuses, the file cannot be written, or a setting that sizes nodes cannot be read.
    """
    from adapters.ports import PortError
    from cli.answers.plan import other_currency
    from cli.manifests.reading import read
    from cli.terminal.style import progress
    from core.catalogue.build import build_catalogue
    from core.catalogue.document import CatalogueOrigin, encode

    classes = [document.object for document in read(arguments.files) if document.kind == "EC2NodeClass"]
    sizing = sizing_settings(os.environ)
    try:
        with progress(f"reading instance types and prices of {arguments.region}"):
            facts = market_of(arguments.region, arguments.profile).read(None)
    except PortError as error:
        hint = "it needs ec2:DescribeInstanceTypes, ec2:DescribeInstanceTypeOfferings, pricing:GetProducts"
        raise InputError(str(error), source="catalog fetch", hint=hint) from error
    spot = () if facts.market.spot is not None else ("no spot prices were read: on-demand prices stand in for them",)
    for problem in (*facts.problems, *spot):
        print(f"warning: {problem}", file=sys.stderr)
    catalogue = build_catalogue(facts.shapes, facts.market, classes, sizing)
    origin = CatalogueOrigin(region=arguments.region, date=f"{facts.prices_read_at:%Y-%m-%d}")
    _write(encode(catalogue, origin), arguments.to)
    unit = other_currency(arguments.region)
    shown = f" in {unit}, which answers show as $" if unit else ""
    types = f"{len(catalogue.default)} instance types of {arguments.region}"
    print(f"{types}, prices of {origin.date}{shown}", file=sys.stderr)
    return DONE


def market_of(region: str, profile: str | None) -> CatalogueSource:
    """Return the market reader: the functions' own adapter, so that the file equals their input.

    Raises:
        InputError: If there is no such profile or region.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    from adapters.composition.command_line import market_reader

    try:
        return market_reader(boto3.Session(profile_name=profile, region_name=region), region)
    except BotoCoreError as error:
        raise InputError(str(error), source="--profile" if profile else "--region") from error


def _write(written: bytes, target: Path | None) -> None:
    if target is None:
        sys.stdout.write(written.decode() + "\n")
        return
    packed = gzip.compress(written, mtime=0) if target.suffix == ".gz" else written
    try:
        target.write_bytes(packed)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(target)) from error
