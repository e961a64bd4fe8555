"""The measured use that a policy needs: of the files' metrics, or of the live cluster."""

from __future__ import annotations

from pathlib import Path

from stowplan import __version__
from stowplan.app.command_line.error_reporting import InputError
from stowplan.app.command_line.event_loop import run
from stowplan.app.sources.cluster_source import ClusterSource
from stowplan.ask.loading.live_cluster import LiveClusterError, live_api
from stowplan.ask.rebalance.policy.measured_use import MeasuredUse, measured_use, use_of
from stowplan.ask.rebalance.policy.policy_file import Policy
from stowplan.drivers.live.measuring import SourceClient
from stowplan.kube.api.api_errors import ApiError
from stowplan.kube.timing.times import REAL_TIMES
from stowplan.net.client.cluster_flags import ClusterFlags
from stowplan.net.client.http.user_agent import user_agent
from stowplan.scheduler.framework.sources import SourceError

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def use_in(about: ClusterSource, policy: Policy, live: ClusterFlags, token_file: str | None) -> MeasuredUse:
    """Raises InputError. Files have NodeMetrics and PodMetrics, if anything was measured."""
    if not about.live:
        if any(one.is_prometheus for one in policy.metrics):
            raise InputError(f"{policy.name}: metricsUtilization: Prometheus is asked for live clusters only")
        kinds = {kind: [one for one in about.others if one["kind"] == kind] for kind in ("NodeMetrics", "PodMetrics")}
        if not kinds["NodeMetrics"]:
            raise InputError(
                f"{policy.name}: metricsUtilization: no NodeMetrics in {about.where}; add the output of "
                "`kubectl get nodes.metrics.k8s.io -o json`, and of pods.metrics.k8s.io -A"
            )
        return use_of(kinds["NodeMetrics"], kinds["PodMetrics"])
    try:
        return run(_asked(policy, live, prometheus_token(token_file)))
    except (SourceError, ApiError, LiveClusterError) as error:
        raise InputError(f"metricsUtilization: {error}") from error


def prometheus_token(file: str | None) -> str:
    """That of the file, or of the service account in a pod; raises InputError."""
    try:
        return Path(file).read_text().strip() if file else _SERVICE_ACCOUNT.read_text().strip()
    except OSError as error:
        if file:
            raise InputError(f"{file}: {error.strerror or error}") from error
        return ""


async def _asked(policy: Policy, live: ClusterFlags, token: str) -> MeasuredUse:
    agent = user_agent(command="stowplan", version=__version__, purpose="rebalance")
    async with live_api(live, agent=agent) as (api, _):
        client = SourceClient(api, REAL_TIMES, agent)
        try:
            return await measured_use(policy, client, token)
        finally:
            await client.close()
