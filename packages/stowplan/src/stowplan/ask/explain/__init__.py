"""Verdicts as data, text, JSON and HTML."""
