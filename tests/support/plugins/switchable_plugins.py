"""Plugins of all kinds whose answers a test switches, and which pods opt in to by label."""

from stowplan import plugins
from stowplan.kube.api.types import Pod
from stowplan.scheduler.framework.requests import Patch, Wait

#: Answers of plugins that may refuse a pod: it passes, is refused, or meets an error.
ANSWER_NAMES = ("yes", "no", "error")
ANSWERS = {"yes": None, "no": plugins.unschedulable("no"), "error": plugins.error("broken")}


class PluginSwitches:
    """The current answers of the plugins."""

    def __init__(self):
        #: Labels of pods that PreEnqueue refuses.
        self.closed_gates = set()
        self.reserve = self.permit = self.prepare = "yes"
        #: Whether pods with the label `wait` wait on Permit.
        self.permit_waits = True
        #: Which nodes extenders leave: all, some or none.
        self.extenders_leave = "all"

    def accept_everything(self):
        self.closed_gates.clear()
        self.reserve = self.permit = self.prepare = "yes"
        self.permit_waits = False
        self.extenders_leave = "all"


def plugins_of(switches):
    """Plugins of PreEnqueue, Reserve, Permit and PreBind; a pod's labels say which of them act on it."""

    class Woken(plugins.EnqueueExtensions):
        def events_to_register(self):
            return [
                plugins.on(plugins.NODE, plugins.Action.UpdateNodeLabel),
                plugins.on(plugins.POD, plugins.Action.UpdatePodLabel),
            ]

    class Gate(Woken, plugins.PreEnqueuePlugin):
        name = "Gate"

        def pre_enqueue(self, pod):
            return plugins.unresolvable("closed") if switches.closed_gates & pod.labels.keys() else None

    class Doorman(Woken, plugins.ReservePlugin, plugins.PermitPlugin):
        name = "Doorman"

        def reserve(self, state, pod, node_name):
            return ANSWERS[switches.reserve]

        def unreserve(self, state, pod, node_name):
            pass

        def permit(self, state, pod, node_name):
            if switches.permit_waits and "wait" in pod.labels:
                return plugins.Status(plugins.Code.Wait), 5.0
            return ANSWERS[switches.permit], 0.0

    class Preparer(Woken, plugins.PreBindPlugin):
        """Waits in steps (a generator)."""

        name = "Preparer"

        def pre_bind_pre_flight(self, state, pod, node_name):
            wanted = {"sleep", "patch", "node", "now", "leave"} & pod.labels.keys()
            return plugins.PreBindPreFlightResult(allow_parallel=True) if wanted else plugins.SKIP

        def pre_bind(self, state, pod, node_name):
            if "leave" in pod.labels:
                self.handle.pods_in_pre_bind.get(pod.uid).cancel("it does not want to")
            if "node" in pod.labels:
                yield Wait(keys=frozenset({("Node", f"/{node_name}")}), seconds=8.0)
            if "sleep" in pod.labels:
                yield Wait(seconds=2.0)
            if "patch" in pod.labels:
                body = {"metadata": {"annotations": {"prepared": node_name}}}
                yield Patch(kind=Pod, namespace="default", name=pod.pod.metadata.name, body=body, type_="merge")
            return ANSWERS[switches.prepare]

    class Runner(Woken, plugins.PreBindPlugin, plugins.PostBindPlugin):
        """Uses coroutines, which allow pods that wait on Permit, and activate pending pods."""

        name = "Runner"

        def pre_bind_pre_flight(self, state, pod, node_name):
            return plugins.PreBindPreFlightResult(allow_parallel=True) if "run" in pod.labels else plugins.SKIP

        async def pre_bind(self, state, pod, node_name):
            for waiting in self.handle.waiting_pods:
                waiting.allow("Doorman")
            return ANSWERS[switches.prepare]

        async def post_bind(self, state, pod, node_name):
            self.handle.activate(list(self.handle.cluster.pending.values()))

    return Gate, Doorman, Preparer, Runner
