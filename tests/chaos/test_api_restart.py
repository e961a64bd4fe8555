"""An API server that is killed and restarted with its data while kube-scheduler is working."""

from contextlib import ExitStack, contextmanager

import pytest

from support.chaos.witness import Witness, dump_matches_cluster, explains_pending, make_nodes
from support.examples import SCALE
from support.processes.scheduler_process import kube_scheduler
from support.processes.servers import SERVER_KINDS, assets, embedded_server, free_port, real_server, running, until

KINDS = SERVER_KINDS
#: Slow enough that the kill happens in the middle.
SLOWLY = ("--kube-api-qps=20", "--kube-api-burst=4")
#: A real server takes longer to restart than the default renew deadline.
PATIENT = ("--leader-elect-lease-duration=120s", "--leader-elect-renew-deadline=90s")


@contextmanager
def api_server(kind, folder):
    if kind == "embedded":
        kept = f"--state={folder / 'state'}", f"--port={free_port()}"
        with embedded_server(folder, "--nodes=4", "--controllers=", *kept) as server:
            yield server
    else:
        with real_server(folder, assets()) as server:
            make_nodes(server, 4)
            yield server


@pytest.mark.parametrize("kind", KINDS)
def test_the_api_server_is_killed_and_restarted(kind, tmp_path):
    with ExitStack() as stack:
        server = stack.enter_context(api_server(kind, tmp_path))
        witness = stack.enter_context(Witness(server.kubeconfig))
        scheduler = stack.enter_context(kube_scheduler(tmp_path, server.kubeconfig, *SLOWLY, *PATIENT))
        scheduler.until("Successfully acquired lease")
        witness.create_pods("large", cpu="1000")
        for time in range(SCALE):
            names = [f"p{time}-{i}" for i in range(40)]
            witness.create_pods(*names)
            before = len(witness.bound)
            witness.until(lambda n=before: len(witness.bound) > n + 5)
            server.process.kill()
            server.process.wait()
            half_done = len(witness.pending_by_watch())
            log = tmp_path / f"again-{time}.log"
            server.process = stack.enter_context(running(server.process.args, log))
            until(witness.answers, server.process, log)
            witness.create_pods(*(f"{name}-more" for name in names[:10]))
            witness.until(lambda: witness.pending() == {"large"})
            assert half_done > 5, "killed before all pods were bound"
        dump_matches_cluster(witness, scheduler)
        witness.check_all_bound_except("large")
        explains_pending(witness, scheduler, "large", "Insufficient cpu")
        assert scheduler.end() == 0
