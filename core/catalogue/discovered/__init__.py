"""What nodes that joined have shown about their instance types."""
