"""The API for writing scheduler plugins. See docs/extend/plugins.md for a guide.

A plugin is a class that derives from the base class of each extension point that it implements:

    class OnlyEvenNodes(NodeFilterPlugin):
        name = "OnlyEvenNodes"

        def filter_node(self, state, pod, node):
            return None if int(node.name[-1]) % 2 == 0 else unschedulable("node number is odd")

Extension points   PreEnqueuePlugin, QueueSortPlugin, PreFilterPlugin, FilterPlugin, NodeFilterPlugin, PostFilterPlugin,
                   PreScorePlugin, ScorePlugin, NodeScorePlugin, ReservePlugin, PermitPlugin, PreBindPlugin, BindPlugin,
                   PostBindPlugin, PlacementGeneratePlugin, PlacementScorePlugin, PodGroupPostFilterPlugin
Results            Status (None is success), unschedulable, unresolvable, error, SKIP, Reason, Rejections
Context            Handle, CycleState, PodInfo, PodShape, NodeInfo, Nodes
Lookups            CustomObject, custom_resource, ObjectIndex, NodeObjects, PodIndex, PodsByValue
Events             EnqueueExtensions, ClusterEventWithHint, on, queue_if, Hint
Requests           Bind, Create, Update, Patch, Delete, Read and Wait, for generators in PreBind, Bind and PostBind
Reuse of results   Reads, CountsPods, BatchState, SignPlugin, ShapeSigned, TemplateSigned, ReadsNoObjects; see
                   docs/extend/declarations.md
Arguments, objects `stowplan.plugins.arguments`: arguments as Kubernetes declares them; `stowplan.plugins.objects`
Explanations       Explanation, Remedy, Change, Dial
"""

from stowplan.kube.api.custom_objects import CustomObject, custom_resource
from stowplan.scheduler.cluster.arrays import Ints, Mask, Values
from stowplan.scheduler.cluster.node_objects import NodeObjects
from stowplan.scheduler.cluster.object_dependencies import ANY_OBJECT, ObjectDependency, ObjectIndex
from stowplan.scheduler.cluster.pod_indexes import PodIndex, PodsByValue
from stowplan.scheduler.cluster.pod_info import PodInfo, PodShape
from stowplan.scheduler.cluster.transaction import CopiedAtBeginning, Participant
from stowplan.scheduler.cluster.view import NodeInfo, Nodes
from stowplan.scheduler.framework.batch_state import BatchState
from stowplan.scheduler.framework.cycle_state import CycleState, NotFoundError, PodsToActivate
from stowplan.scheduler.framework.declarations import (
    CountsPods,
    Plugin,
    Reads,
    ReadsNoObjects,
    ShapeSigned,
    SignPlugin,
    TemplateSigned,
)
from stowplan.scheduler.framework.diagnosis import Diagnosis
from stowplan.scheduler.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    Hint,
    on,
    queue_if,
)
from stowplan.scheduler.framework.eviction_plan import EvictionPlan, GroupEvictionPlan
from stowplan.scheduler.framework.explanations.changes import Change, Dial, Step, Way, move, with_labels, with_spec
from stowplan.scheduler.framework.explanations.explanation import Explanation
from stowplan.scheduler.framework.explanations.grouping import Refusal
from stowplan.scheduler.framework.explanations.inspection import Inspection
from stowplan.scheduler.framework.explanations.preemption import Eviction, Preemption, Victim, eviction
from stowplan.scheduler.framework.explanations.remedy import HOPELESS, Remedy, one_or_all
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import (
    MAX_SCORE,
    MIN_SCORE,
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    NodeFilterPlugin,
    NodePodExtensions,
    NodeScorePlugin,
    PermitPlugin,
    Placement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodExtensions,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreBindPreFlightResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ProposedAssignment,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from stowplan.scheduler.framework.pod_shift import PodShift
from stowplan.scheduler.framework.rejections import Entry, Rejections
from stowplan.scheduler.framework.requests import (
    Bind,
    Create,
    Delete,
    Done,
    Outcome,
    Patch,
    Read,
    Refused,
    Steps,
    Unknown,
    Update,
    Wait,
)
from stowplan.scheduler.framework.runtime.registry import PluginLoadError
from stowplan.scheduler.framework.status import SKIP, Code, Reason, Status, error, unresolvable, unschedulable
from stowplan.scheduler.framework.waiting_pods import PodInPreBind, WaitingPod

__all__ = [
    "ANY_OBJECT",
    "ASSIGNED_POD",
    "HOPELESS",
    "MAX_SCORE",
    "MIN_SCORE",
    "NODE",
    "POD",
    "SKIP",
    "TARGET_POD",
    "UNSCHEDULABLE_POD",
    "UNSCHEDULED_POD",
    "Action",
    "BatchState",
    "Bind",
    "BindPlugin",
    "Change",
    "ClusterEvent",
    "ClusterEventWithHint",
    "Code",
    "CopiedAtBeginning",
    "CountsPods",
    "Create",
    "CustomObject",
    "CycleState",
    "Delete",
    "Diagnosis",
    "Dial",
    "Done",
    "EnqueueExtensions",
    "Entry",
    "Eviction",
    "EvictionPlan",
    "Explanation",
    "FilterPlugin",
    "GroupEvictionPlan",
    "Handle",
    "Hint",
    "Inspection",
    "Ints",
    "Mask",
    "NodeFilterPlugin",
    "NodeInfo",
    "NodeObjects",
    "NodePodExtensions",
    "NodeScorePlugin",
    "Nodes",
    "NotFoundError",
    "ObjectDependency",
    "ObjectIndex",
    "Outcome",
    "Participant",
    "Patch",
    "PermitPlugin",
    "Placement",
    "PlacementGeneratePlugin",
    "PlacementScorePlugin",
    "Plugin",
    "PluginLoadError",
    "PodExtensions",
    "PodGroupAssignments",
    "PodGroupInfo",
    "PodGroupPostFilterPlugin",
    "PodGroupPostFilterResult",
    "PodInPreBind",
    "PodIndex",
    "PodInfo",
    "PodShape",
    "PodShift",
    "PodsByValue",
    "PodsToActivate",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreBindPreFlightResult",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "Preemption",
    "ProposedAssignment",
    "QueueSortPlugin",
    "Read",
    "Reads",
    "ReadsNoObjects",
    "Reason",
    "Refusal",
    "Refused",
    "Rejections",
    "Remedy",
    "ReservePlugin",
    "ScorePlugin",
    "ShapeSigned",
    "SignPlugin",
    "Status",
    "Step",
    "Steps",
    "TemplateSigned",
    "Unknown",
    "Update",
    "Values",
    "Victim",
    "Wait",
    "WaitingPod",
    "Way",
    "custom_resource",
    "error",
    "eviction",
    "move",
    "on",
    "one_or_all",
    "queue_if",
    "unresolvable",
    "unschedulable",
    "with_labels",
    "with_spec",
]
