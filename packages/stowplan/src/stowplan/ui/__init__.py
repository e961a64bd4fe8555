"""Server side of the page: the cluster as a plan of nodes and pods, and its changes."""
