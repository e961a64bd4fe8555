"""Metrics under upstream's names."""
