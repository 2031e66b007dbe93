"""Ports over AWS: translates boto3 into the project's types and errors."""
