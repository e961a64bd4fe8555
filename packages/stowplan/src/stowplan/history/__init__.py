"""Recordings of a scheduler, and comparison with a running one."""
