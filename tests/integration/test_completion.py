"""Shell completion of names from a live cluster."""

from click.shell_completion import ShellComplete

from stowplan.app.cli.main import cli


def test_nodes_of_a_live_cluster(cluster):
    completion = ShellComplete(cli, {}, "stowplan", "_STOWPLAN_COMPLETE")
    found = completion.get_completions(["drain", "--kubeconfig", str(cluster.kubeconfig)], "node")
    assert len(found) == 6
