"""Recordings on disk: read, replay, verify, reschedule."""
