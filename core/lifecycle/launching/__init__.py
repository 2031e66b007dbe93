"""Launches that several claims share."""
