"""The `stowplan` command: one module for each subcommand."""
