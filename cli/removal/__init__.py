"""Everything that an installation made in a cluster and an account ends: what `drain --all` looks at and does."""
