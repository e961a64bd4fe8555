"""A client of the page's stream, written from the protocol alone."""

import json

_SHARED = {"nodes": {"labels": "labelSets", "taints": "taintSets", "allocatable": "amountSets"}}
_SHARED["pods"] = {
    "node": "nodeNames",
    "nominatedNode": "nodeNames",
    "workload": "workloads",
    "created": "times",
    "labels": "labelSets",
    "requests": "amountSets",
    "podGroup": "podGroups",
}
_NAMES = {"nodes": "name", "pods": "key"}


class Client:
    def __init__(self):
        self.version = 0
        self.snapshots = 0
        #: Whether more of the snapshot is to come.
        self.wants_more = False
        self.nodes, self.pods = {}, {}
        #: Node names that later parts of the snapshot do not repeat.
        self._known = []

    def read(self, frame):
        message = data_of(frame)
        if message["kind"] == "snapshot":
            self.nodes, self.pods = {}, {}
            self._known = ["", *message["nodes"]["name"]]
            self.snapshots += 1
        elif message["kind"] == "part":
            message["pods"]["nodeNames"] = self._known + message["pods"]["nodeNames"]
        elif message["kind"] == "delta":
            assert message["since"] == self.version
            for name in message["goneNodes"]:
                del self.nodes[name]
            for key in message["gonePods"]:
                del self.pods[key]
        if "nodes" in message:
            self.nodes |= rows(message, "nodes")
        self.pods |= rows(message, "pods")
        self.version = message["version"]
        self.wants_more = message.get("more", False)


def data_of(frame):
    id_line, event, data = frame.removesuffix(b"\n\n").split(b"\n")
    message = json.loads(data.removeprefix(b"data: "))
    assert id_line == b"id: %d" % message["version"]
    assert event == b"event: " + message["kind"].encode()
    return message


def rows(message, kind):
    """Name -> fields."""
    block, shared = message[kind], _SHARED[kind]
    lists = {*shared.values(), "terminating"}
    columns = {name: column for name, column in block.items() if name not in lists}
    count = len(block[_NAMES[kind]])
    assert {len(column) for column in columns.values()} == {count}
    found = {}
    for i in range(count):
        fields = {
            name: block[shared[name]][column[i]] if name in shared else column[i] for name, column in columns.items()
        }
        if kind == "pods":
            fields["terminating"] = i in block["terminating"]
        found[fields[_NAMES[kind]]] = fields
    return found


def read_all(viewer, client):
    """Everything that a stream sends to a viewer."""
    if viewer.needs_snapshot:
        viewer.start()
        for make in viewer._broadcast.snapshot():
            client.read(make())
    for frame in viewer.take():
        client.read(frame)
