"""Recordings on disk: read, replay, verify, decide again."""
