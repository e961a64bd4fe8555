"""A plugin whose arguments are a dataclass with defaults, as a user writes it."""

from dataclasses import dataclass, field

from stowplan.plugins import NodeScorePlugin


@dataclass
class Preference:
    node: str = "large"
    points: int = 100
    others: list[str] = field(default_factory=list)


class Prefers(NodeScorePlugin):
    name = "Prefers"
    args_type = Preference

    def score_node(self, state, pod, node):
        return self.args.points if node.name == vars(self.args)["node"] else 0


#: The file sets one of the fields.
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"score": {"enabled": [{"name": "Prefers", "weight": 50}]}},
            "pluginConfig": [{"name": "Prefers", "args": {"points": 90}}],
        }
    ],
}
COMPLETE = {"node": "large", "points": 90, "others": []}
