"""Ports over AWS: boto3 in, our words and errors out."""
