"""Configurations searched for: trials on one part of a scenario, and a judgement on the rest."""
