"""Common parts of tests that run the reference's own program next to ours."""

import time

from support.api import manifests
from support.processes.scheduler_process import COMMAND
from support.processes.servers import assets

REFERENCE = assets() and assets() / "kube-scheduler"
HAS_REFERENCE = REFERENCE is not None and REFERENCE.exists()
NO_REFERENCE = "KUBEBUILDER_ASSETS has no kube-scheduler"

#: Flags that the reference's program does not have.
OUR_FLAGS = {
    "extender-mode",
    "plugin",
    "plugin-timeout",
    "plugin-binding-timeout",
    "record",
    "record-annotation",
    "record-keep",
    "record-max-size",
    "tracing-config-file",
    "watch-config",
}

#: The reference's program is 1.36.
AS_REFERENCE = "--emulated-version=1.36"
PROGRAMS = {"theirs": [str(REFERENCE)], "ours": [*COMMAND, AS_REFERENCE]}

NODES = [
    {**manifests.node(name), "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}}
    for name, labels in (("n0", {}), ("n1", {}), ("n2", {"special": "yes"}))
]
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}


def wait_for(holds, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.1)
