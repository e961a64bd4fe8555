"""Search for a scheduler configuration: trials on one part of a scenario, judged on the rest."""
