"""Schemas of custom resource definitions, and validation against them."""
