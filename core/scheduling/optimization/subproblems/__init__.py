"""Packing problems: which machine types may be bought for which items, split by zone where they are large."""
