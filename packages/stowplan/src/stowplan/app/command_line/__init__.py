"""Shared command-line infrastructure: groups, exit codes, signals, event loop, flags."""
