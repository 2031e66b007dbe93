"""Replans in another order or with other zones if the first plan left pods without a place."""
