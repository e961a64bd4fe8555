"""Recordings on disk, and what can be done with one: read it, rebuild a moment, check it, decide anew."""
