"""For tests of plugins: builders of pods and nodes; a complete scheduler in memory is in `stowplan.testing.live`."""

from stowplan.testing.builders import NodeBuilder, PodBuilder, a_node, a_pod, expression, selector

__all__ = ["NodeBuilder", "PodBuilder", "a_node", "a_pod", "expression", "selector"]
