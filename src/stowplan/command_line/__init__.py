"""How commands run, fail and end: the group of commands, exit codes, signals, the event loop, flags."""
