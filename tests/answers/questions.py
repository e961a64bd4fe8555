"""Questions about a cluster, and what happens when their answers are carried out.

Each function here asks, and yields answers. The check of an answer carries it out on a copy of the cluster (`apart`),
and returns what is wrong with it, or "".
"""

import io
import json
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

from answers.asked import AnyOfThem
from answers.living import COLLECTED, FLUSHED
from answers.states import State, different, ordered
from answers.worlds import ZONE, changed, may_refuse, more_objects
from stowplan.app.cli.explain.answers import about_pods
from stowplan.app.sources.object_references import reference
from stowplan.app.sources.selection import Selection
from stowplan.app.sources.templates import pod_named
from stowplan.ask.explain.text.tables import plain
from stowplan.ask.loading.object_files import objects_of_files
from stowplan.ask.loading.workloads import workload_of
from stowplan.ask.what_if import AddNodes, Label, Put, Remove, Scale, Taint, drain, fit, survive
from stowplan.ask.what_if.hypothetical_nodes import node_like, node_named, pods_on
from stowplan.ask.what_if.quotas import quota_limits
from stowplan.kube.api.api_errors import Forbidden
from stowplan.kube.api.daemon_pods import node_of
from stowplan.kube.api.decode import decode_object, to_dict
from stowplan.kube.api.eviction_outcomes import EvictionOutcome, eviction_outcome
from stowplan.kube.api.types import PersistentVolumeClaim
from stowplan.scheduler.cluster.objects import key_of

STORAGE = {
    "Deployment": "deployments.apps",
    "StatefulSet": "statefulsets.apps",
    "DaemonSet": "daemonsets.apps",
    "Job": "jobs.batch",
}
#: Other choices among equals that are tried before an answer counts as wrong, and before nodes count as certain.
CHANCES, CHANCES_OF_NODES = 60, 40
#: More pods than most quotas of worlds allow.
MANY = 12


@dataclass
class Answer:
    kind: str
    text: str
    #: (apart, chances) -> what is wrong.
    check: Any


# -- fit --------------------------------------------------------------------------------------------------------------


def fits(asked, world, living, random):
    for obj in random.sample(world.workloads, min(2, len(world.workloads))):
        name = obj["kind"], obj["metadata"]["name"]
        pod = pod_of(asked, name)
        if pod is None or name[0] == "DaemonSet" or pod.spec.scheduler_name == "other" or _blocked(living, name):
            continue
        named = f"default/{name[1]}" if name[0] == "Pod" else f"{name[0].lower()}/default/{name[1]}"
        waiting = missing(living, name)
        grow, sharp = partial(_grown, name=name, pod=pod, waiting=waiting), not may_preempt(asked, pod)
        number = fit(asked.cluster, pod_named(asked.about, (), reference(named))).fits
        yield Answer(
            "fit",
            f"fit {named}: {number} more",
            partial(_check_fit, named=named, number=number, grow=grow, sharp=sharp),
        )
        more = number + random.randint(1, 3)
        if nodes := fit(asked.cluster, pod_named(asked.about, (), reference(named)), replicas=more).nodes_to_add:
            add = random.choice(nodes)
            like = node_named(asked.cluster, add.like)
            text = f"fit {named} --replicas {more}: add {add.count} like {add.like}"
            check = partial(_check_nodes, name=name, named=named, more=more, add=add, like=like, grow=grow, sharp=sharp)
            yield Answer("fit, nodes to add", text, check)


def pod_of(asked, name):
    """A pod of the workload; None if there is none."""
    return next((info.pod for info in asked.about.pods() if _is_of(info.pod, name)), None)


def _is_of(pod, name):
    return (workload_of(pod) or ("Pod", pod.metadata.name)) == name


def may_preempt(asked, pod):
    mine = pod.spec.priority or 0
    placed = asked.cluster.state.placed_pods()
    return pod.spec.preemption_policy != "Never" and any((info.pod.spec.priority or 0) < mine for info in placed)


def _blocked(living, name):
    """An ordered StatefulSet makes no more pods while one waits."""
    if name[0] != "StatefulSet":
        return False
    ordered = living.get(STORAGE[name[0]], name[1])["spec"].get("podManagementPolicy") != "Parallel"
    return ordered and State.of_api(living)[name].waiting > 0


def _check_fit(apart, chances, *, named, number, grow, sharp):
    more, one_more = apart(lambda living: (grow(living, number), grow(living, 1)))
    if more <= 0 and (one_more > 0 or not sharp):
        return ""
    for other in chances():
        found = fit(other.cluster, pod_named(other.about, (), reference(named))).fits
        if found < number if more > 0 else found > number:
            return ""
    return f"of so many {more} wait" if more > 0 else "one more runs, too"


def _check_nodes(apart, chances, *, name, named, more, add, like, grow, sharp):
    names = [f"{like.metadata.name}-like-{number}" for number in range(1, add.count + 1)]

    def carried_out(living):
        # Pods that wait already are not the question, and would go there, too.
        living.hold(name)
        add_nodes(living, like, names[:-1])
        living.rest()
        fewer = grow(living, more)
        add_nodes(living, like, names[-1:])
        return fewer, grow(living, 0)

    fewer, enough = apart(carried_out)
    if enough <= 0 and (fewer > 0 or not sharp):
        return ""
    for other in chances():
        found = fit(other.cluster, pod_named(other.about, (), reference(named)), replicas=more)
        counts = {one.like: one.count for one in found.nodes_to_add}
        if counts.get(add.like) != add.count:
            return ""
    return f"with them {enough} wait" if enough > 0 else "one node less is enough"


def _grown(living, more, *, name, pod, waiting):
    """Add pods, and return how many more of the workload wait than at first."""
    kind, of = name
    if kind == "Pod":
        made = to_dict(pod)
        spec = {field: value for field, value in made["spec"].items() if field not in ("nodeName", "schedulingGates")}
        for number in range(more):
            fresh = f"{of}-more-{living.store.version}-{number}"
            metadata = {
                "name": fresh,
                "namespace": "default",
                "labels": {**made["metadata"].get("labels", {}), "more": of},
            }
            living.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": deepcopy(spec)})
        living.rest()
        mine = [one for one in living.all("pods") if one["metadata"].get("labels", {}).get("more") == of]
        return sum(one["status"]["phase"] != "Running" for one in mine)
    before = {one["metadata"]["name"] for one in living.all("pods")}
    scaled(living, kind, of, wanted(living, kind, of) + more)
    living.rest()
    if pod.spec.scheduling_gates:
        # A copy only needs a node. The new pods come first: a claim of one that was there may have the last volume.
        gated = [one for one in living.all("pods") if one["spec"].get("schedulingGates")]
        gated.sort(key=lambda one: one["metadata"]["name"] in before)
        for one in [one for one in gated if _is_of(decode_object(one), name)][:more]:
            one["spec"]["schedulingGates"] = []
            living.update("pods", one)
        living.rest()
    return missing(living, name) - waiting


def missing(living, name):
    """How many pods that the workload wants do not run."""
    running = State.of_api(living)[name].nodes.total()
    return (1 if name[0] == "Pod" else wanted(living, *name)) - running


def scaled(living, kind, name, number):
    living.patch(STORAGE[kind], name, {"spec": {"parallelism" if kind == "Job" else "replicas": number}})


def wanted(living, kind, name):
    obj = living.get(STORAGE[kind], name)
    if kind == "DaemonSet":
        return obj["status"]["desiredNumberScheduled"]
    return obj["spec"]["parallelism" if kind == "Job" else "replicas"]


def add_nodes(living, like, names):
    """The nodes with the pods of their DaemonSets, before others that wait come: who is first is chance."""
    go_on = living.hold()
    for name in names:
        made = to_dict(node_like(like, name))
        metadata = {"name": name, "labels": made["metadata"].get("labels", {})}
        status = {key: made["status"][key] for key in ("capacity", "allocatable")}
        spec = {"taints": made["spec"].get("taints", [])}
        living.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status})
    living.rest(quiet=3)
    go_on()


# -- what-if ----------------------------------------------------------------------------------------------------------


def what_ifs(asked, world, living, random):
    for _ in range(4):
        nodes = sorted(asked.cluster.state.table.row_of)
        random.shuffle(nodes)
        drawn = [_a_change(asked, world, living, random, nodes.pop()) for _ in range(random.choice([1, 1, 1, 2]))]
        if any(len({type(one) for one, _ in drawn}) < len(drawn) and isinstance(one, Put | Scale) for one, _ in drawn):
            # Both may be about the same workload.
            drawn.pop()
        # In the order of the command.
        changes, done = zip(*sorted(drawn, key=lambda one: _ORDER.index(type(one[0]))), strict=True)
        text = "what-if " + ", ".join(change.text for change in changes)
        yield Answer(f"what-if {type(changes[0]).__name__}", text, partial(_check_what_if, asked, changes, done))


def _check_what_if(asked, changes, done, apart, chances):
    try:
        record, before, after = asked.after(*changes)
    except Exception as error:
        return f"{type(error).__name__}: {error}"

    last = COLLECTED if any(isinstance(change, Remove) for change in changes) else 0

    def carried_out(living, longer=0, between=None):
        first = State.of_api(living)
        for do in done:
            do(living)
            if between is not None:
                living.rest(between)
        living.rest(max(longer, last))
        return first, State.of_api(living)

    def judged(first, state):
        after.ordered = state.ordered
        if before.counts != first.counts:
            return f"before: said and is {different(before.counts, first.counts)}"
        if len(record.after.pending) != sum(after.waiting.values()):
            return f"{len(record.after.pending)} pending pods are listed, and {sum(after.waiting.values())} wait"
        for name in state:
            if name[0] == "DaemonSet" and not any(first[name].counts):
                # Its pods are all that is known of a DaemonSet, and it had none.
                after[name] = state[name]
        scales = {(change.kind, change.name): change.replicas for change in changes if isinstance(change, Scale)}
        smaller = any(number < sum(first[name].counts) for name, number in scales.items())
        others = (other.after(*(AnyOfThem.of(change, other.random) for change in changes))[2] for other in chances())
        return _compared(after, state, others, smaller=smaller)

    # Parity: no hint wakes a pod that only preemption's trial refused for a reason that is gone; the flush does.
    problem = judged(*apart(carried_out)) and judged(*apart(lambda living: carried_out(living, FLUSHED)))
    if problem and len(done) > 1:
        # A removed node keeps its pods for a while: they come before those of the next change only if that is late.
        return judged(*apart(lambda living: carried_out(living, between=last)))
    return problem


def _compared(said, did, chances, *, smaller=False):
    """`chances`: what other choices among equals lead to. `smaller`: a workload chose which pods to delete."""
    if said.counts == did.counts:
        if said.nodes == did.nodes or smaller:
            return ""
        for number, other in enumerate(chances):
            if other.nodes != said.nodes:
                return ""
            if number > CHANCES_OF_NODES:
                return f"nodes: said and came {different(said.nodes, did.nodes)}"
        return ""
    for other in chances:
        other.ordered = did.ordered
        if other.counts == did.counts:
            return ""
    return f"(running, waiting): said and came {different(said.counts, did.counts)}"


#: In which the command makes changes.
_ORDER = (AddNodes, Remove, Label, Taint, Scale, Put)


def _a_change(asked, world, living, random, node):
    """A change, and how it is carried out."""
    kind = random.choice(["scale"] * 5 + ["add", "remove", "remove", "label", "taint", "taint", "put", "put", "put"])
    if kind == "add":
        number = random.randint(1, 2)
        like, names = node_named(asked.cluster, node), [f"{node}-like-{one}" for one in range(1, number + 1)]
        return AddNodes(number, node), lambda living: add_nodes(living, like, names)
    if kind == "remove":
        return Remove(node), lambda living: living.delete("nodes", node)
    if kind == "label":
        key, value = random.choice([("disk", "ssd"), ("disk", None), (ZONE, "b"), ("disk", "sdd")])
        return Label(node, key, value), lambda living: living.patch(
            "nodes", node, {"metadata": {"labels": {key: value}}}
        )
    if kind == "taint":
        effect = random.choice(["NoSchedule", "NoExecute", ""])
        return Taint(node, "dedicated", "x" if effect else "", effect), partial(_taint, node=node, effect=effect)
    if kind == "put":
        return _a_put(asked, world, random)
    scalable = [obj for obj in world.workloads if obj["kind"] in ("Deployment", "StatefulSet", "Job")]
    scalable = [obj for obj in scalable if pod_of(asked, (obj["kind"], obj["metadata"]["name"])) is not None]
    if not scalable:
        return _a_put(asked, world, random)
    obj = random.choice(scalable)
    kind, name = obj["kind"], obj["metadata"]["name"]
    number = max(0, wanted(living, kind, name) + random.randint(-2, 4))
    return Scale(kind, "default", name, number), lambda living: scaled(living, kind, name, number)


def _taint(living, *, node, effect):
    obj = living.get("nodes", node)
    taints = [
        one
        for one in obj["spec"].get("taints", ())
        if one["key"] != "dedicated" or (effect and one["effect"] != effect)
    ]
    if effect:
        taints.append({"key": "dedicated", "value": "x", "effect": effect})
    obj["spec"]["taints"] = taints
    living.update("nodes", obj)


def _a_put(asked, world, random):
    """As `what-if --apply` reads it."""
    objects = more_objects(random) if random.random() < 0.6 else changed(world, random)
    text = io.BytesIO(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode())
    filed = objects_of_files(["-"], text, beside=asked.cluster.state.everything())
    return Put(tuple(filed.objects), "", filed.workloads), lambda living: [living.apply(obj) for obj in objects]


# -- drain and survive ------------------------------------------------------------------------------------------------


def drains(asked, world, living, random):
    nodes = sorted(asked.cluster.state.table.row_of)
    chosen = random.sample(nodes, random.choice([1, 1, 2]) if len(nodes) > 2 else 1)
    yield Answer("drain", f"drain {' '.join(chosen)}", partial(_check_drain, asked, chosen))


def _check_drain(asked, nodes, apart, chances):
    record = drain(asked.cluster, nodes)
    order = [
        (name, [(info.key, eviction_outcome(info.pod)) for info in pods_on(asked.cluster, name)])
        for name in record.nodes
    ]

    def carried_out(living):
        blocked = []
        for name in record.nodes:
            living.patch("nodes", name, {"spec": {"unschedulable": True}})
        living.rest(quiet=1.5)
        for name, pods in order:
            for key, outcome in pods:
                pod = key.partition("/")[2]
                there = next((one for one in living.all("pods") if one["metadata"]["name"] == pod), None)
                # It may have been preempted meanwhile.
                if outcome is EvictionOutcome.BELONGS_TO_NODE or there is None or there["spec"].get("nodeName") != name:
                    continue
                if not living.evict(pod):
                    blocked.append(key)
                # What comes back is Ready before the next one goes.
                living.rest(quiet=3)
        living.rest()
        return blocked, State.of_api(living)

    blocked, state = apart(carried_out)
    start = asked.now()
    if any(state[name].waiting < start[name].waiting for name in start):
        # What waited before gets room by the drain, and may come first: the answer is about the pods that leave.
        blocked, state = apart(lambda living: (living.hold(), carried_out(living))[1])
    daemons = {workload_of(info.pod) for info in _daemons_waiting(asked, nodes)}

    def wrong(record):
        said = _after_moves(asked, start, record)
        for name in daemons:
            # What waits for a drained node alone gets room there: the answer is about the pods that leave.
            said[name] = state[name]
        if sorted(blocked) != sorted(one.pod for one in record.blocked_by):
            return f"blocked: said {sorted(one.pod for one in record.blocked_by)}, came {sorted(blocked)}"
        if said.counts != state.counts:
            return f"(running, waiting): said and came {different(said.counts, state.counts)}"
        return ""

    problem = wrong(record)
    if not problem or any(not wrong(drain(other.cluster, nodes)) for other in chances()):
        return ""
    return problem


def _daemons_waiting(asked, nodes):
    """Pods of DaemonSets that wait for one of these nodes."""
    for info in asked.cluster.state.pending.values():
        owner = workload_of(info.pod)
        if owner is not None and owner[0] == "DaemonSet" and node_of(info.pod.spec.affinity) in nodes:
            yield info


def _after_moves(asked, start, record):
    """The state after a drain: what is displaced or evicted, and what moves."""
    homes = {info.key: info for info in asked.cluster.state.placed_pods()}
    after = deepcopy(start)
    for key in {*record.lost, *record.displaced, *(one.pod for one in (*record.moves, *record.stranded))}:
        info = homes[key]
        of = after[workload_of(info.pod) or ("Pod", info.pod.metadata.name)]
        of.nodes[info.node_name] -= 1
    last = {key: "" for key in record.displaced if eviction_outcome(homes[key].pod) is EvictionOutcome.BELONGS_TO_NODE}
    for move in record.moves:
        last[move.pod] = move.to
    for one in record.stranded:
        last[one.pod] = ""
    for key, node in last.items():
        after.add(homes[key].pod, node)
    return after


def survivals(asked, world, living, random):
    by = random.choice(["node", "node", ZONE])
    try:
        record = survive(asked.cluster, by)
    except Exception as error:
        if "no node has the label" not in str(error):
            raise
        return
    for loss in random.sample(record.losses, min(3, len(record.losses))):
        nodes = [node for node in asked.cluster.state.table.row_of if _lost(asked, node, by, loss.lost)]
        if len(nodes) == asked.cluster.state.table.count:
            continue
        yield Answer("survive", f"survive --by {by}: {loss.lost}", partial(_check_loss, asked, nodes, loss, by))


def _lost(asked, node, by, value):
    return node == value if by == "node" else node_named(asked.cluster, node).metadata.labels.get(by) == value


def _check_loss(asked, nodes, loss, by, apart, chances):
    def carried_out(living):
        for node in nodes:
            living.delete("nodes", node)
        living.rest(COLLECTED)
        return State.of_api(living)

    state = apart(carried_out)

    def wrong(loss):
        said = asked.now()
        homes = {info.key: info for info in asked.cluster.state.placed_pods()}
        stranded = {one.pod for one in loss.stranded}
        outcomes = {key: eviction_outcome(homes[key].pod) for key in loss.displaced}
        gone = {key for key, outcome in outcomes.items() if outcome is EvictionOutcome.LOST}
        # A DaemonSet makes another one for the same node, which waits.
        stranded |= {key for key, outcome in outcomes.items() if outcome is EvictionOutcome.BELONGS_TO_NODE}
        here = [info for info in homes.values() if info.node_name in nodes]
        for info in _daemons_waiting(asked, nodes):
            # What waits for a lost node alone goes with it.
            said[workload_of(info.pod)].waiting -= 1
        moved = [
            info
            for info in here
            if eviction_outcome(info.pod) is EvictionOutcome.RECREATED and info.key not in stranded
        ]
        if loss.moved != len(moved):
            return f"{loss.moved} moved, which are not {[info.key for info in moved]}"
        for info in here:
            if eviction_outcome(info.pod) is not EvictionOutcome.RECREATED:
                said[workload_of(info.pod) or ("Pod", info.pod.metadata.name)].nodes[info.node_name] -= 1
        for key in {*stranded, *gone}:
            of = said[workload_of(homes[key].pod) or ("Pod", homes[key].pod.metadata.name)]
            of.nodes[homes[key].node_name] -= 1
            of.waiting += key in stranded
        if said.counts != state.counts:
            return f"(running, waiting): said and came {different(said.counts, state.counts)}"
        return ""

    problem = wrong(loss)
    if not problem:
        return ""
    for other in chances():
        if not wrong(survive(other.cluster, by, only=loss.lost).losses[0]):
            return ""
        # In another order.
        if other.after(*(Remove(node) for node in nodes))[2].counts == state.counts:
            return ""
    return problem


# -- explain ----------------------------------------------------------------------------------------------------------


def explanations(asked, world, living, random):
    for obj in world.workloads:
        name = obj["kind"], obj["metadata"]["name"]
        text = f"{name[0].lower()}/default/{name[1]}"
        said = about_pods(asked.about, Selection.of([reference(text)]), "json")
        data = said.data()
        yield Answer("explain", f"explain {text}", partial(_check_explanation, asked, living, name, said, data))
        for record in data.get("summary", {}).get("relief", ()):
            relief = f"explain {text}: {record['text']} places {record['pods']}"
            carry_out = _relieved(asked, name, record)
            if carry_out is not None:
                yield Answer("relief", relief, partial(_check_relief, asked, text, name, record, carry_out))
    waiting = [info for info in asked.about.pods() if not info.node_name]
    for info in random.sample(waiting, min(3, len(waiting))):
        if info.pod.spec.scheduler_name == "other":
            continue
        for suggestion in asked.about.verdict(info).suggestions()[:2]:
            if _loses_its_volume(asked, info.pod, suggestion):
                continue
            text = f"explain {info.key}: {suggestion.text}"
            yield Answer("suggestion", text, partial(_check_suggestion, info, suggestion))


def _loses_its_volume(asked, pod, suggestion):
    """Another pod has another ephemeral claim, and a volume that was made for the first one is not free again."""
    if suggestion.applied_to(pod) == pod:
        return False
    names = {f"default/{pod.metadata.name}-{one.name}" for one in pod.spec.volumes if one.ephemeral}
    claims = (one for one in asked.cluster.state.objects.all(PersistentVolumeClaim) if key_of(one.metadata) in names)
    return any(claim.spec.volume_name for claim in claims)


def _relieved(asked, name, record):
    """How it is carried out; None: with the claims of the pods, it cannot be."""
    (change, *_) = record["changes"]
    if change["kind"] == "addNodes":
        like = node_named(asked.cluster, change["like"])
        names = [f"{change['like']}-like-{number}" for number in range(1, change["nodes"] + 1)]
        return lambda living: add_nodes(living, like, names)
    waiting = [info for info in asked.cluster.state.pending.values() if _is_of(info.pod, name)]
    found = [(info.pod, one) for info in waiting for one in asked.about.verdict(info).suggestions()]
    found = [(pod, one) for pod, one in found if list(one.changes_data) == list(record["changes"])]
    if any(_loses_its_volume(asked, pod, one) for pod, one in found):
        return None
    return lambda living: _carry_out(living, found[0][1], [pod for pod, _ in found])


def _check_relief(asked, text, name, record, carry_out, apart, chances):
    def carried_out(living):
        before = State.of_api(living)[name].nodes.total()
        living.hold(name)
        carry_out(living)
        living.rest()
        return State.of_api(living)[name].nodes.total() - before

    came = apart(carried_out)
    if came == record["pods"] or (came > record["pods"] and may_preempt(asked, pod_of(asked, name))):
        # What is suggested evicts nobody.
        return ""
    for other in chances():
        found = about_pods(other.about, Selection.of([reference(text)]), "json").data()["summary"]["relief"]
        if {"text": record["text"], "pods": came} in [{"text": one["text"], "pods": one["pods"]} for one in found]:
            return ""
    return f"{came} run more"


def _check_explanation(asked, living, name, said, data, apart, chances):
    plain(said.page())
    there = {f"default/{one['metadata']['name']}": decode_object(one) for one in living.all("pods")}
    mine = {key: pod for key, pod in there.items() if _is_of(pod, name)}
    infos = {info.key: info for info in asked.about.pods() if _is_of(info.pod, name)}
    if mine.keys() != infos.keys():
        return f"pods: said {sorted(infos)}, there are {sorted(mine)}"
    if name[0] != "Pod":
        wants = wanted(living, *name)
        (record,) = data["workloads"]
        if (record["wanted"], record["existing"]) != (wants, len(mine)):
            return f"said {record}, wants {wants} and has {len(mine)}"
        if problem := _wrong_about_missing(living, record):
            return problem
        running = sum(pod.status.phase == "Running" for pod in mine.values())
        if (data["summary"]["pods"], data["summary"]["running"]) != (len(mine), running):
            return f"said {data['summary']}, {running} of {len(mine)} run"
    nodes = [decode_object(one) for one in living.all("nodes")]
    for key, info in infos.items():
        pod, verdict, reported = mine[key], asked.about.verdict(info), asked.about.reported(info)
        if verdict.current_node != pod.spec.node_name:
            return f"{key} is said to be on {verdict.current_node!r}, and is on {pod.spec.node_name!r}"
        condition = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
        if reported is None or reported.condition != condition:
            return f"{key}: condition {condition} is reported as {reported}"
        if pod.spec.node_name or pod.spec.scheduler_name == "other":
            continue
        if verdict.node_name:
            return f"{key} waits ({condition and condition.message}), and is said to go to {verdict.node_name}"
        given = may_refuse(pod, there.values(), nodes)
        if verdict.gated is not None:
            plugins = {verdict.gated.plugin}
        elif verdict.error is not None:
            return f"{key}: {verdict.error.message}"
        else:
            plugins = set(verdict.diagnosis.unschedulable_plugins)
        if not plugins <= given:
            return f"{key} is said to wait because of {sorted(plugins - given)}, which was not put there"
        if condition is not None and verdict.gated is None and verdict.full_message != condition.message:
            return f"{key}: said {verdict.full_message!r}, its scheduler said {condition.message!r}"
    return ""


def _check_suggestion(info, suggestion, apart, chances):
    pod = info.pod
    whole = suggestion.applied_to(pod)

    def carried_out(living):
        waited = {one["metadata"]["name"] for one in living.all("pods") if not one["spec"].get("nodeName")}
        try:
            _carry_out(living, suggestion, [pod])
        except Forbidden:
            # A quota that is younger than the pod refuses it when it is made again.
            return None
        living.rest()
        nodes = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in living.all("pods")}
        return {name: nodes[name] for name in waited if nodes.get(name)}

    came = apart(carried_out)
    if came is None:
        return ""
    node = came.get(pod.metadata.name)
    if not suggestion.gain and not suggestion.preempts_on:
        return f"no node was to take it, and {node} did" if node else ""
    if node or (came and (whole == pod or any(change.nodes or change.leaving for change in suggestion.changes))):
        # Another pod that waited took the place on the node that was changed, or that of the pod that moved.
        return ""
    return "it waits all the same"


def _wrong_about_missing(living, record):
    """Pods that were not created: a quota keeps them away, or another pod of an ordered StatefulSet."""
    missing, why = record.get("missing", 0), record.get("message", "")
    because_of_quota = any(f"ed quota: {name}" in why for name in living.quotas)
    if missing and not because_of_quota and "OrderedReady" not in why:
        return f"{missing} were not created, and the reason is not named: {why!r}"
    if why and not missing:
        return f"none is missing, and {why!r} is the reason"
    return ""


def _carry_out(living, suggestion, pods):
    """For these pods."""
    for change in suggestion.changes:
        for name in change.nodes:
            if change.on_node is not None:
                _write_node(living, to_dict(change.on_node(decode_object(living.get("nodes", name)))))
        for obj in change.objects:
            made = to_dict(obj)
            if made["kind"] == "PersistentVolume":
                # Where it is stored is for its creator to say.
                made["spec"].setdefault("hostPath", {"path": "/data"})
            living.apply(made)
    for pod in pods:
        if (whole := suggestion.applied_to(pod)) != pod:
            _replace_pod(living, to_dict(whole))
    for one in {left.key: left for change in suggestion.changes for left in change.leaving}.values():
        living.delete("pods", one.pod.metadata.name)
    if any(change.leaving for change in suggestion.changes):
        # They are to go elsewhere: these pods come first.
        living.schedule_only()


def _write_node(living, node):
    there = living.get("nodes", node["metadata"]["name"])
    there["metadata"]["labels"] = node["metadata"].get("labels", {})
    for field in ("taints", "unschedulable"):
        there["spec"].pop(field, None)
        if field in node["spec"]:
            there["spec"][field] = node["spec"][field]
    living.update("nodes", there)
    there = living.get("nodes", node["metadata"]["name"])
    there["status"]["allocatable"] = there["status"]["capacity"] = node["status"]["allocatable"]
    living.update("nodes", there, "status")


def _replace_pod(living, pod):
    """As if its controller had made it like this: at once, so that no other one is made."""
    name = pod["metadata"]["name"]
    there = next(one for one in living.all("pods") if one["metadata"]["name"] == name)
    if there["metadata"].get("finalizers"):
        living.patch("pods", name, {"metadata": {"finalizers": None}})
    living.delete("pods", name)
    kept = {
        key: value
        for key, value in there["metadata"].items()
        if key in ("annotations", "finalizers", "ownerReferences")
    }
    metadata = {"name": name, "namespace": "default", "labels": pod["metadata"].get("labels", {}), **kept}
    living.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]})


# -- quotas -----------------------------------------------------------------------------------------------------------


def quotas(asked, world, living, random):
    """As `fit` and `what-if --scale` note them."""
    scalable = [obj for obj in world.of("Deployment", "Job", "StatefulSet") if living.quotas]
    for obj in random.sample(scalable, min(2, len(scalable))):
        name = obj["kind"], obj["metadata"]["name"]
        pod = pod_of(asked, name)
        if pod is None or name in ordered(living) or may_preempt(asked, pod):
            continue
        limits = quota_limits(asked.cluster, asked.about.quotas, [(pod, MANY)])
        allowed = min((one.allowed for one in limits), default=MANY)
        text = f"{'/'.join(name)}: of {MANY} more {allowed} are created"
        yield Answer("quota", text, partial(_check_quota, name=name, allowed=allowed))


def _check_quota(apart, chances, *, name, allowed):
    def carried_out(living):
        before = sum(State.of_api(living)[name].counts)
        scaled(living, *name, wanted(living, *name) + MANY)
        living.rest()
        return sum(State.of_api(living)[name].counts) - before

    created = apart(carried_out)
    return "" if created == allowed else f"{created} were created"


#: Questions that are asked while quotas are in place; the others are about nodes.
WITH_QUOTAS = (explanations, quotas)
QUESTIONS = (fits, what_ifs, drains, survivals, explanations, quotas)
