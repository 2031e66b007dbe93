"""Reads which brakes are engaged, and engages those that functions hold."""
