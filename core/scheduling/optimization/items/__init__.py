"""Packing items: pods that must stay together, and pods that are interchangeable."""
