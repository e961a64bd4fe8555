"""Search for a scheduler configuration: trials on one part of a scenario, evaluated on the rest."""
