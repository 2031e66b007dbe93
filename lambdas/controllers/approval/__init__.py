"""Holds back commands that wait for a person, requests approval, and ends proposals that no longer hold."""
