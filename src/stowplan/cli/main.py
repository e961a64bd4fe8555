"""The `stowplan` command."""

from __future__ import annotations

import sys

import click

from stowplan import __version__
from stowplan.cli.explain import explain
from stowplan.cli.run import run
from stowplan.command_line.errors import Commands
from stowplan.command_line.standard_streams import open_closed
from stowplan_cluster.commands.apiserver import apiserver
from stowplan_cluster.commands.demo import demo
from stowplan_cluster.commands.up import up


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="stowplan %(version)s (decides as kube-scheduler 1.36)")
def cli() -> None:
    """A Kubernetes scheduler that you can question.

    \b
    Where would my pods go, and why?
      stowplan explain pending                              why pods of a live cluster are pending, what would help
      stowplan explain pod shop/web-0                       where one pod goes, and why there
      kubectl get ns,no,po,svc,rs,rc,sts,pdb,pc -A -o json > cluster.json
      stowplan explain -f cluster.json pending              the same from files
    \b
    In a cluster:
      stowplan run --scheduler-name mine                    schedule the pods that ask for it
      kube-scheduler --kubeconfig FILE                      in place of Kubernetes' own, with its flags
    \b
    Without a cluster at hand:
      stowplan demo
      stowplan up                                           a cluster that schedules, for kubectl
      stowplan apiserver --nodes 100                        the same without a scheduler, for yours
    """


cli.add_command(explain)
cli.add_command(demo)
cli.add_command(apiserver)
cli.add_command(up)
cli.add_command(run)


def main() -> None:
    open_closed()
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a replacement, not a crash.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    cli(prog_name="stowplan")


if __name__ == "__main__":
    main()
