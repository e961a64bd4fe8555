"""What the page in the browser is sent: the cluster as a plan of nodes and pods, and its changes."""
