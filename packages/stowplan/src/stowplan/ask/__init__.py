"""Questions about a cluster: explain, fit, drain, survive, what-if."""
