"""Interrupt users' plugins that hang."""
