"""Interrupt user plugins that hang."""
