"""The JSON answers as types. `make docs` writes their JSON Schemas, and tests check the answers against these."""
