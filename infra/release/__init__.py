"""Builds a release: `make release VERSION=x.y.z` writes its files to build/release (docs/explanation/releases.md)."""
