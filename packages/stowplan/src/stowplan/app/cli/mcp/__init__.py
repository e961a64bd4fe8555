"""`stowplan mcp`: the questions of the commands, as tools for agents."""
