"""kube-scheduler's flags.

`kinds` parses values, `flag_set` command lines, `usage` prints help; `table` lists the flags, and the other modules
apply them. To add a flag, add a line to the table.

Upstream: github.com/spf13/pflag; cmd/kube-scheduler/app/options.
"""
