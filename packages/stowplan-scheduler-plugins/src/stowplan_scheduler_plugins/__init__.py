"""Plugins of kubernetes-sigs/scheduler-plugins, with their names, arguments and decisions.

A module per plugin, written with `stowplan.plugins` alone, as any user's. Once the distribution is installed, every
`stowplan` command knows the plugins by their entry points. `python -m stowplan_scheduler_plugins.golden` compares them
with recorded answers of the originals.
"""
