"""Nodes with a label `team` take pods of that team only, and the team prefers them.

It looks at one node at a time, which is the simplest way to write a plugin:

stowplan explain -f cluster.yaml --config plugins/team_nodes.yaml --plugin plugins.team_nodes:TeamNodes
"""

from stowplan.plugins import NodeFilterPlugin, NodeScorePlugin, Reason, ShapeSigned, unresolvable

OTHER_TEAM = Reason("OtherTeam", "node(s) belonged to team {team}")


class TeamNodes(NodeFilterPlugin, NodeScorePlugin, ShapeSigned):
    name = "TeamNodes"

    def filter_node(self, state, pod, node):
        owner = node.labels.get("team")
        if owner is None or owner == pod.labels.get("team"):
            return None
        return unresolvable(OTHER_TEAM.of(team=owner))

    def score_node(self, state, pod, node):
        return 100 if "team" in node.labels else 0
