"""Karpenter's controller and our functions in the same place, one after the other, measured alike."""
