"""Manifests, valid and invalid (manifest_changes.py), and what a real API server makes of them, which is recorded.

`python -m support.api.wrong_manifests KUBECONFIG` records a server's errors and objects again. It needs the feature
gates `GATES`.
"""

import copy
import json
import re
import sys
import urllib.error
from contextlib import closing
from pathlib import Path

from stowplan_cluster.apiserver.resources import BUILT_IN, Catalogue
from support.api.manifest_changes import CHANGES, GONE, GOOD
from support.processes.api_client import Client

RECORDED = Path(__file__).parent / "wrong_manifests.json"
STORED = Path(__file__).parent / "stored_manifests.json"
PRINTED = Path(__file__).parent / "printed_manifests.json"
OWNED = Path(__file__).parent / "owned_manifests.json"
GATES = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true,"
GATES += "GangScheduling=true,DRADeviceTaints=true,DRADeviceTaintRules=true"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_OF_COLUMNS = ("name", "type", "format", "priority")
_VARIES = re.compile(rf"^(?:\d+[smhdy])+$|(?<=uid=)[\da-f-]+|^10\.\d+\.\d+\.\d+$|{_TIME.pattern}")
_CATALOGUE = Catalogue(BUILT_IN)


def changed(manifest, changes):
    """A copy with other fields: path, value, …; numbers in a path are list indexes, GONE removes the field."""
    made = copy.deepcopy(manifest)
    for path, value in zip(changes[::2], changes[1::2], strict=True):
        *parents, last = path.split(".")
        holder = made
        for step in parents:
            holder = holder[int(step)] if isinstance(holder, list) else holder.setdefault(step, {})
        if value is GONE:
            holder.pop(last, None)
        elif isinstance(holder, list):
            holder[int(last) : int(last) + 1] = [copy.deepcopy(value)]
        else:
            holder[last] = copy.deepcopy(value)
    return made


def _title(name, changes):
    told = (f"{p}={'absent' if v is GONE else json.dumps(v)}" for p, v in zip(changes[::2], changes[1::2], strict=True))
    return f"{name}: {', '.join(text if len(text) < 400 else f'{text[:40]}… of {len(text)}' for text in told)}"


def manifests():
    """Title -> manifest, valid ones included."""
    for name, good in GOOD.items():
        yield name, good
        for changes in CHANGES.get(name, ()):
            yield _title(name, changes), changed(good, changes)


def answers(kubeconfig):
    """By title: a server's errors; and of what it accepts, if not very long, object, table and ownership of fields."""
    client = Client(kubeconfig)
    refused, stored, printed, owned = {}, {}, {}, {}
    for title, manifest in manifests():
        answer = _answer_to(client, manifest)
        accepted = isinstance(answer, dict)
        refused[title] = [] if accepted else answer
        if accepted and "…" not in title:
            stored[title] = comparable(answer)
            printed[title] = printed_as(_answer_to(client, manifest, accept=_TABLE))
            owned[title] = owned_by(answer)
    return refused, stored, printed, owned


def _answer_to(client, manifest, **accept):
    """The object; or the errors: `field: message`, sorted and without duplicates, as maps have no order in Go."""
    resource = _CATALOGUE.of_kind(manifest["apiVersion"], manifest["kind"])
    namespace = "namespaces/default/" if resource.namespaced else ""
    try:
        return client(f"{resource.path}/{namespace}{resource.plural}?dryRun=All", manifest, **accept)
    except urllib.error.HTTPError as error:
        with closing(error):
            status = json.loads(error.read())
        causes = (status.get("details") or {}).get("causes")
        if causes is None:
            return [status["message"]]
        return sorted({f"{cause['field']}: {cause['message']}" for cause in causes})


def comparable(obj):
    """Without what differs between servers: UIDs, times, addresses, and nulls that only Go writes."""
    metadata = obj["metadata"]
    text = json.dumps(obj | {"metadata": {key: metadata[key] for key in ("labels", "annotations") if key in metadata}})
    made = _without_nulls(json.loads(_TIME.sub("TIME", text.replace(metadata["uid"], "UID"))))
    if obj["kind"] == "Service":
        for key in ("clusterIP", "clusterIPs"):
            made["spec"].pop(key, None)
    if obj["kind"] in ("HorizontalPodAutoscaler", "CustomResourceDefinition"):
        # Controllers write it.
        made.pop("status", None)
    return made


def owned_by(obj):
    """The fields of each manager."""
    return [entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())]


def printed_as(table):
    """The columns and cells of the only row, without what differs each time."""
    (row,) = table["rows"]
    columns = [", ".join(str(column[key]) for key in _OF_COLUMNS) for column in table["columnDefinitions"]]
    cells = [_VARIES.sub("…", cell) if isinstance(cell, str) else cell for cell in row["cells"]]
    return [[column, cell] for column, cell in zip(columns, cells, strict=True)]


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


if __name__ == "__main__":
    refused, *others = answers(Path(sys.argv[1]))
    RECORDED.write_text(json.dumps(refused, indent=1, ensure_ascii=False) + "\n")
    for file, found in zip((STORED, PRINTED, OWNED), others, strict=True):
        lines = (f"{json.dumps(title)}: {json.dumps(made, sort_keys=True)}" for title, made in found.items())
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
