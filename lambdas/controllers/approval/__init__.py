"""Holds back commands that wait for a person, asks for approval, and lets lapse what no longer holds."""
