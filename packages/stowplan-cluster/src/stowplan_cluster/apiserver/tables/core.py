"""Tables of nodes, services and the small kinds of the core group, and of role bindings.

Upstream: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from stowplan_cluster.apiserver.conversion import core_event
from stowplan_cluster.apiserver.objects import JsonObject, condition_of
from stowplan_cluster.apiserver.tables.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    WIDE,
    Cell,
    Column,
    Printer,
    format_labels,
    name_of,
    or_else,
    part,
    text,
    time_since,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"


def _node_status(node: JsonObject) -> str:
    ready = condition_of(part(node, "status"), "Ready")
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if part(node, "spec").get("unschedulable") else status


def _node_roles(node: JsonObject) -> str:
    roles = set()
    for key, value in part(node, "metadata", "labels").items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _address(node: JsonObject, type: str) -> str:
    addresses = part(node, "status").get("addresses") or []
    return next((address.get("address", "") for address in addresses if address.get("type") == type), NONE)


def _node(node: JsonObject, _now: float) -> list[Cell]:
    info = part(node, "status", "nodeInfo")
    architecture = info.get("architecture")
    kernel = or_else(info.get("kernelVersion"), UNKNOWN)
    return [
        _node_status(node),
        _node_roles(node),
        info.get("kubeletVersion") or "",
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        or_else(info.get("osImage"), UNKNOWN),
        f"{kernel} ({architecture})" if architecture else kernel,
        or_else(info.get("containerRuntimeVersion"), UNKNOWN),
    ]


def _external_ip(service: JsonObject) -> str:
    spec = part(service, "spec")
    external: list[str] = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            return ",".join([*_ingress_points(service), *external]) or "<pending>"
        case "ExternalName":
            return spec.get("externalName") or ""
    return UNKNOWN


def _ingress_points(service: JsonObject) -> list[str]:
    ingress = part(service, "status", "loadBalancer").get("ingress") or []
    return sorted({point.get("ip") or point.get("hostname") or "" for point in ingress} - {""})


def _port(port: JsonObject) -> str:
    node_port = port.get("nodePort") or 0
    middle = f":{node_port}" if node_port > 0 else ""
    return f"{port.get('port') or 0}{middle}/{port.get('protocol') or ''}"


def _service(service: JsonObject, _now: float) -> list[Cell]:
    spec = part(service, "spec")
    addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
    return [
        spec.get("type") or "",
        or_else(addresses[0], NONE),
        _external_ip(service),
        ",".join(_port(port) for port in spec.get("ports") or []) or NONE,
        format_labels(spec.get("selector")),
    ]


def _namespace(obj: JsonObject, _now: float) -> list[Cell]:
    return [part(obj, "status").get("phase") or ""]


def _config_map(obj: JsonObject, _now: float) -> list[Cell]:
    return [len(part(obj, "data")) + len(part(obj, "binaryData"))]


def _secret(obj: JsonObject, _now: float) -> list[Cell]:
    return [obj.get("type") or "", len(part(obj, "data"))]


def _quota(obj: JsonObject, _now: float) -> list[Cell]:
    status = part(obj, "status")
    hard, used = part(status, "hard"), part(status, "used")
    rows = {name: f"{name}: {used.get(name, 0)}/{hard[name]}" for name in sorted(hard)}
    return [
        ", ".join(row for name, row in rows.items() if not name.startswith("limits.")),
        ", ".join(row for name, row in rows.items() if name.startswith("limits.")),
    ]


NODES = Printer(
    (
        NAME,
        text("Status", "Whether the node is ready, and whether it takes new pods."),
        text("Roles", "What the node is for, by its role labels."),
        AGE,
        text("Version", "The version of the node's kubelet."),
        text("Internal-IP", "The node's first internal address.", priority=WIDE),
        text("External-IP", "The node's first external address.", priority=WIDE),
        text("OS-Image", "The node's operating system.", priority=WIDE),
        text("Kernel-Version", "The node's kernel and architecture.", priority=WIDE),
        text("Container-Runtime", "What runs the node's containers.", priority=WIDE),
    ),
    _node,
)
SERVICES = Printer(
    (
        NAME,
        text("Type", "How the service can be reached."),
        text("Cluster-IP", "Its address within the cluster."),
        text("External-IP", "Its addresses from outside."),
        text("Port(s)", "Its ports, with node ports behind a colon."),
        AGE,
        text("Selector", "Labels of the pods behind it.", priority=WIDE),
    ),
    _service,
)
NAMESPACES = Printer((NAME, text("Status", "Whether the namespace is in use or being deleted."), AGE), _namespace)
CONFIG_MAPS = Printer((NAME, text("Data", "How many entries there are."), AGE), _config_map)
SECRETS = Printer(
    (NAME, text("Type", "What the secret is for."), text("Data", "How many entries there are."), AGE), _secret
)
QUOTAS = Printer(
    (NAME, text("Request", "Requests used and allowed."), text("Limit", "Limits used and allowed."), AGE), _quota
)
#: The printer of kinds with no columns but name and age.
NAME_AND_AGE = Printer((NAME, AGE))


# Tables of role bindings; roles themselves are listed as any kind without a printer.


def _subjects(obj: JsonObject, kind: str) -> list[JsonObject]:
    return [subject for subject in obj.get("subjects") or [] if subject.get("kind") == kind]


def _binding(obj: JsonObject, _now: float) -> list[Cell]:
    role = part(obj, "roleRef")
    accounts = _subjects(obj, "ServiceAccount")
    return [
        f"{role.get('kind', '')}/{role.get('name', '')}",
        ", ".join(user.get("name", "") for user in _subjects(obj, "User")),
        ", ".join(group.get("name", "") for group in _subjects(obj, "Group")),
        ", ".join(f"{account.get('namespace', '')}/{account.get('name', '')}" for account in accounts),
    ]


BINDINGS = Printer(
    (
        NAME,
        text("Role", "The role that is given."),
        AGE,
        text("Users", "Users it is given to.", priority=WIDE),
        text("Groups", "Groups it is given to.", priority=WIDE),
        text("ServiceAccounts", "Service accounts it is given to.", priority=WIDE),
    ),
    _binding,
)


# The Event table, shared by both API groups.


def _source(event: JsonObject) -> str:
    source = part(event, "source")
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _target(event: JsonObject) -> str:
    about = part(event, "involvedObject")
    kind: str = (about.get("kind") or "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _cells(obj: JsonObject, now: float) -> list[Cell]:
    event = core_event(obj)
    first = time_since(event.get("firstTimestamp") or event.get("eventTime"), now)
    last = event.get("lastTimestamp")
    series = event.get("series")
    if series is not None:
        last_seen, count = time_since(series.get("lastObservedTime"), now), series.get("count") or 0
    else:
        last_seen, count = time_since(last, now) if last else first, event.get("count") or 1
    return [
        last_seen,
        event.get("type") or "",
        event.get("reason") or "",
        _target(event),
        part(event, "involvedObject").get("fieldPath") or "",
        _source(event),
        (event.get("message") or "").strip(),
        first,
        count,
        name_of(event),
    ]


EVENTS = Printer(
    (
        text("Last Seen", "How long ago it happened last."),
        text("Type", "Normal or Warning."),
        text("Reason", "What happened, in one word."),
        text("Object", "What it happened to."),
        text("Subobject", "Which part of the object, if not all of it.", priority=WIDE),
        text("Source", "Who reports it.", priority=WIDE),
        text("Message", "What happened, in full."),
        text("First Seen", "How long ago it happened first.", priority=WIDE),
        text("Count", "How often it happened.", priority=WIDE),
        Column("Name", "string", "What the event is called.", format="name", priority=WIDE),
    ),
    _cells,
)
