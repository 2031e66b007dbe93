"""The ways of finding nodes that may go, in Karpenter's order. None knows of another; `decision` puts them in line."""
