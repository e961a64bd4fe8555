"""Host ports of a pod, normalized so that equal tuples conflict.

Upstream: GetHostPorts in pkg/scheduler/util, HostPortInfo in k8s.io/kube-scheduler/framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.kube.api.pod import Pod

HostPort = tuple[str, str, int]

#: The one address that conflicts with all others; `::` is an ordinary address.
ANY_ADDRESS = "0.0.0.0"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """(ip, protocol, port) of each host port: sidecars first, then containers.

    Ordinary init containers are excluded: they have ended when the containers run.
    """
    spec = pod.spec
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    return tuple(
        (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )
