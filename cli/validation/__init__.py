"""The checks of `fleetwright validate`: invalid fields, unknown fields, values that match nothing, dangling references."""
