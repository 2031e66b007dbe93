"""Carries a claim from launch to its end, step by step."""
