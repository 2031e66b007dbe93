"""The Lambda entry points, a few lines each."""
