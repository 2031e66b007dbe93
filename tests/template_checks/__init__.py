"""What AWS would say to the templates, asked offline: `make lint-templates`."""
