"""What `fleetwright validate` finds: faults of fields, unknown fields, values that match nothing, dangling names."""
