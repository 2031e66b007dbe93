"""The checks of `fleetwright validate`: invalid fields, unknown fields, values that match nothing, dangling references."""

PUBLIC = ("examine", "formats")
"""Files that the rest of the project may import; the others are this package's inside."""
