"""GPUs that pods share, as plugins for Stowplan, and the experiment that compares six policies for them.

`sharing` fits pods to single GPUs and assigns them, `policies` has a Score plugin for each policy of "Beware of
Fragmentation" (USENIX ATC 2023), `experiment` repeats that paper's comparison on a trace. docs/use/gpu-sharing.md walks
through it.
"""
