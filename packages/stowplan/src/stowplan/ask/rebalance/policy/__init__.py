"""Moves that a DeschedulerPolicy asks for."""
