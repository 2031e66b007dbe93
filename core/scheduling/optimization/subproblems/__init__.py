"""Packing problems: which types may be bought for which items, split where a market is large."""
