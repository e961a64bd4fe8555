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
Lookups            CustomObject, custom_resource, ObjectIndex, NodeObjects, PodIndex, PodsByValue, GroupKind
Events             EnqueueExtensions, ClusterEventWithHint, on, queue_if, Hint
Requests           Bind, Create, Update, Patch, Delete, Read and Wait, for generators in PreBind, Bind and PostBind
Reuse of results   Reads, CountsPods, BatchState, SignPlugin, ShapeSigned, TemplateSigned, ReadsNoObjects; see
                   docs/extend/declarations.md
Arguments, objects `stowplan.plugins.arguments`: arguments as Kubernetes declares them; `stowplan.plugins.objects`
Explanations       Explanation, Remedy, Change, Dial, QuotaUse
"""

from typing import TYPE_CHECKING

from stowplan.kube.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from stowplan.kube.api.custom_objects import CustomObject as CustomObject
    from stowplan.kube.api.custom_objects import custom_resource as custom_resource
    from stowplan.scheduler.cluster.arrays import Ints as Ints
    from stowplan.scheduler.cluster.arrays import Mask as Mask
    from stowplan.scheduler.cluster.arrays import Rows as Rows
    from stowplan.scheduler.cluster.arrays import Values as Values
    from stowplan.scheduler.cluster.declared_groups import GroupKind as GroupKind
    from stowplan.scheduler.cluster.node_objects import NodeObjects as NodeObjects
    from stowplan.scheduler.cluster.objects import ANY_OBJECT as ANY_OBJECT
    from stowplan.scheduler.cluster.objects import ObjectDependency as ObjectDependency
    from stowplan.scheduler.cluster.objects import ObjectIndex as ObjectIndex
    from stowplan.scheduler.cluster.pod_groups import AnyGroup as AnyGroup
    from stowplan.scheduler.cluster.pod_indexes import PodIndex as PodIndex
    from stowplan.scheduler.cluster.pod_indexes import PodsByValue as PodsByValue
    from stowplan.scheduler.cluster.pod_info import PodInfo as PodInfo
    from stowplan.scheduler.cluster.pod_info import PodShape as PodShape
    from stowplan.scheduler.cluster.transaction import CopiedAtBeginning as CopiedAtBeginning
    from stowplan.scheduler.cluster.transaction import Participant as Participant
    from stowplan.scheduler.cluster.view import NodeInfo as NodeInfo
    from stowplan.scheduler.cluster.view import Nodes as Nodes
    from stowplan.scheduler.framework.batch_state import BatchState as BatchState
    from stowplan.scheduler.framework.cycle_state import CycleState as CycleState
    from stowplan.scheduler.framework.cycle_state import NotFoundError as NotFoundError
    from stowplan.scheduler.framework.cycle_state import PodsToActivate as PodsToActivate
    from stowplan.scheduler.framework.declarations import CountsPods as CountsPods
    from stowplan.scheduler.framework.declarations import Plugin as Plugin
    from stowplan.scheduler.framework.declarations import QuotaUse as QuotaUse
    from stowplan.scheduler.framework.declarations import Reads as Reads
    from stowplan.scheduler.framework.declarations import ReadsNoObjects as ReadsNoObjects
    from stowplan.scheduler.framework.declarations import ShapeSigned as ShapeSigned
    from stowplan.scheduler.framework.declarations import SignPlugin as SignPlugin
    from stowplan.scheduler.framework.declarations import TemplateSigned as TemplateSigned
    from stowplan.scheduler.framework.diagnosis import Diagnosis as Diagnosis
    from stowplan.scheduler.framework.diagnosis import Entry as Entry
    from stowplan.scheduler.framework.diagnosis import Rejections as Rejections
    from stowplan.scheduler.framework.events import ASSIGNED_POD as ASSIGNED_POD
    from stowplan.scheduler.framework.events import NODE as NODE
    from stowplan.scheduler.framework.events import POD as POD
    from stowplan.scheduler.framework.events import TARGET_POD as TARGET_POD
    from stowplan.scheduler.framework.events import UNSCHEDULABLE_POD as UNSCHEDULABLE_POD
    from stowplan.scheduler.framework.events import UNSCHEDULED_POD as UNSCHEDULED_POD
    from stowplan.scheduler.framework.events import Action as Action
    from stowplan.scheduler.framework.events import ClusterEvent as ClusterEvent
    from stowplan.scheduler.framework.events import ClusterEventWithHint as ClusterEventWithHint
    from stowplan.scheduler.framework.events import Hint as Hint
    from stowplan.scheduler.framework.events import on as on
    from stowplan.scheduler.framework.events import queue_if as queue_if
    from stowplan.scheduler.framework.eviction_plan import EvictionPlan as EvictionPlan
    from stowplan.scheduler.framework.eviction_plan import GroupEvictionPlan as GroupEvictionPlan
    from stowplan.scheduler.framework.explanations.explanation import Explanation as Explanation
    from stowplan.scheduler.framework.explanations.inspection import Inspection as Inspection
    from stowplan.scheduler.framework.explanations.preemption import Eviction as Eviction
    from stowplan.scheduler.framework.explanations.preemption import Preemption as Preemption
    from stowplan.scheduler.framework.explanations.preemption import Victim as Victim
    from stowplan.scheduler.framework.explanations.preemption import eviction as eviction
    from stowplan.scheduler.framework.explanations.remedy import HOPELESS as HOPELESS
    from stowplan.scheduler.framework.explanations.remedy import Change as Change
    from stowplan.scheduler.framework.explanations.remedy import Dial as Dial
    from stowplan.scheduler.framework.explanations.remedy import Refusal as Refusal
    from stowplan.scheduler.framework.explanations.remedy import Remedy as Remedy
    from stowplan.scheduler.framework.explanations.remedy import Step as Step
    from stowplan.scheduler.framework.explanations.remedy import Way as Way
    from stowplan.scheduler.framework.explanations.remedy import move as move
    from stowplan.scheduler.framework.explanations.remedy import one_or_all as one_or_all
    from stowplan.scheduler.framework.explanations.remedy import with_labels as with_labels
    from stowplan.scheduler.framework.explanations.remedy import with_spec as with_spec
    from stowplan.scheduler.framework.handle import Handle as Handle
    from stowplan.scheduler.framework.interface import MAX_SCORE as MAX_SCORE
    from stowplan.scheduler.framework.interface import MIN_SCORE as MIN_SCORE
    from stowplan.scheduler.framework.interface import BindPlugin as BindPlugin
    from stowplan.scheduler.framework.interface import EnqueueExtensions as EnqueueExtensions
    from stowplan.scheduler.framework.interface import FilterPlugin as FilterPlugin
    from stowplan.scheduler.framework.interface import NodeFilterPlugin as NodeFilterPlugin
    from stowplan.scheduler.framework.interface import NodePodExtensions as NodePodExtensions
    from stowplan.scheduler.framework.interface import NodeScorePlugin as NodeScorePlugin
    from stowplan.scheduler.framework.interface import PermitPlugin as PermitPlugin
    from stowplan.scheduler.framework.interface import Placement as Placement
    from stowplan.scheduler.framework.interface import PlacementGeneratePlugin as PlacementGeneratePlugin
    from stowplan.scheduler.framework.interface import PlacementScorePlugin as PlacementScorePlugin
    from stowplan.scheduler.framework.interface import PodExtensions as PodExtensions
    from stowplan.scheduler.framework.interface import PodGroupAssignments as PodGroupAssignments
    from stowplan.scheduler.framework.interface import PodGroupInfo as PodGroupInfo
    from stowplan.scheduler.framework.interface import PodGroupPostFilterPlugin as PodGroupPostFilterPlugin
    from stowplan.scheduler.framework.interface import PodGroupPostFilterResult as PodGroupPostFilterResult
    from stowplan.scheduler.framework.interface import PodGroupPostFilterSteps as PodGroupPostFilterSteps
    from stowplan.scheduler.framework.interface import PostBindPlugin as PostBindPlugin
    from stowplan.scheduler.framework.interface import PostFilterPlugin as PostFilterPlugin
    from stowplan.scheduler.framework.interface import PostFilterResult as PostFilterResult
    from stowplan.scheduler.framework.interface import PreBindPlugin as PreBindPlugin
    from stowplan.scheduler.framework.interface import PreBindPreFlightResult as PreBindPreFlightResult
    from stowplan.scheduler.framework.interface import PreEnqueuePlugin as PreEnqueuePlugin
    from stowplan.scheduler.framework.interface import PreFilterPlugin as PreFilterPlugin
    from stowplan.scheduler.framework.interface import PreFilterResult as PreFilterResult
    from stowplan.scheduler.framework.interface import PreScorePlugin as PreScorePlugin
    from stowplan.scheduler.framework.interface import ProposedAssignment as ProposedAssignment
    from stowplan.scheduler.framework.interface import QueueSortPlugin as QueueSortPlugin
    from stowplan.scheduler.framework.interface import ReservePlugin as ReservePlugin
    from stowplan.scheduler.framework.interface import ScorePlugin as ScorePlugin
    from stowplan.scheduler.framework.pod_shift import PodShift as PodShift
    from stowplan.scheduler.framework.requests import Bind as Bind
    from stowplan.scheduler.framework.requests import Create as Create
    from stowplan.scheduler.framework.requests import Delete as Delete
    from stowplan.scheduler.framework.requests import Done as Done
    from stowplan.scheduler.framework.requests import Outcome as Outcome
    from stowplan.scheduler.framework.requests import Patch as Patch
    from stowplan.scheduler.framework.requests import Read as Read
    from stowplan.scheduler.framework.requests import Refused as Refused
    from stowplan.scheduler.framework.requests import Steps as Steps
    from stowplan.scheduler.framework.requests import Unknown as Unknown
    from stowplan.scheduler.framework.requests import Update as Update
    from stowplan.scheduler.framework.requests import Wait as Wait
    from stowplan.scheduler.framework.runtime.registry import PluginLoadError as PluginLoadError
    from stowplan.scheduler.framework.status import SKIP as SKIP
    from stowplan.scheduler.framework.status import Code as Code
    from stowplan.scheduler.framework.status import Reason as Reason
    from stowplan.scheduler.framework.status import Status as Status
    from stowplan.scheduler.framework.status import error as error
    from stowplan.scheduler.framework.status import unresolvable as unresolvable
    from stowplan.scheduler.framework.status import unschedulable as unschedulable
    from stowplan.scheduler.framework.waiting_pods import PodInPreBind as PodInPreBind
    from stowplan.scheduler.framework.waiting_pods import WaitingPod as WaitingPod
else:
    __getattr__, __dir__ = lazy_imports(__name__, __file__)
