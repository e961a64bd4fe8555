"""kube-scheduler's flags.

`kinds` reads values, `flag_set` a command line, `usage` prints help; `table` lists the flags, and what remains in the
modules is what becomes of them. To add a flag is to add a line to the table.

Upstream: github.com/spf13/pflag; cmd/kube-scheduler/app/options.
"""
