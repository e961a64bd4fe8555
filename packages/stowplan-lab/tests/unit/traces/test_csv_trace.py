"""Traces from CSV files: mapping of rows, and errors."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan_lab.traces import rows as csv_rows
from stowplan_lab.traces.rows import in_order
from stowplan_lab.traces.trace import TraceError, open_trace
from support.examples import times

COLUMNS = {
    "file": "pods.csv",
    "time": "submit",
    "end": "gone",
    "name": "pod",
    "resources": {"cpu": {"column": "milli", "suffix": "m"}, "memory": "mem"},
    "labels": {"team": "team"},
    "annotations": {"example.com/gpu": "gpu"},
}
HEAD = "pod,submit,gone,milli,mem,team,gpu\n"


@pytest.fixture
def read(tmp_path):
    """Arrivals of a text, with options replacing those of COLUMNS; None omits one."""

    def read(text, **options):
        (tmp_path / "pods.csv").write_text(text, encoding="utf-8")
        given = {name: value for name, value in (COLUMNS | options).items() if value is not None}
        return list(open_trace("csv", given, tmp_path).arrivals())

    return read


def test_a_row_is_a_pod(read):
    first, second = read(HEAD + "a,100,160,500,1Gi,red,2\nb,110.5,,,,,\n")
    assert (first.at, first.lifetime, first.pod.metadata.name) == (0.0, 60.0, "a")
    assert first.pod.spec.containers[0].resources.requests == {"cpu": "500m", "memory": "1Gi"}
    assert (first.pod.metadata.labels, first.pod.metadata.annotations) == ({"team": "red"}, {"example.com/gpu": "2"})
    # Empty cells: no request, no label, unknown end.
    assert (second.at, second.lifetime) == (10.5, None)
    assert second.pod.spec.containers[0].resources.requests == {}
    assert second.pod.metadata.labels == {}


def test_equal_pods_share_their_spec(read):
    a, b, c = (arrival.pod for arrival in read(HEAD + "a,1,,500,1Gi,x,\nb,2,,500,1Gi,x,\nc,3,,600,1Gi,x,\n"))
    assert a.spec is b.spec
    assert a.metadata.labels is b.metadata.labels
    assert a.spec is not c.spec


@pytest.mark.parametrize(
    ("options", "cell", "at"),
    [
        pytest.param({"unit": "ms"}, "2500", 2.5, id="milliseconds"),
        pytest.param({"unit": "ns"}, "1500000000", 1.5, id="nanoseconds"),
        pytest.param({"unit": "rfc3339", "start": "2026-01-01T00:00:00Z"}, "2026-01-01T00:01:00Z", 60.0, id="dates"),
    ],
)
def test_units_of_time(read, options, cell, at):
    (arrival,) = read(HEAD + f"a,{cell},,1,1,,\n", **({"start": 0} | options))
    assert arrival.at == at


def test_lifetimes_from_a_column(read):
    (arrival,) = read(HEAD + "a,5,1500,1,1,,\n", end=None, lifetime="gone", unit="ms")
    assert arrival.lifetime == 1.5


def test_selecting_rows(read):
    found = read(HEAD + "a,1,,1,1,red,\nb,2,,1,1,blue,\nc,3,,1,1,green,\n", where={"team": ["red", "green"]})
    assert [arrival.pod.metadata.name for arrival in found] == ["a", "c"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        pytest.param("b,x,,1,1,,", "line 3: submit: 'x' is not a number", id="time is no number"),
        pytest.param("b,,,1,1,,", "line 3: submit: the cell is empty", id="time is missing"),
        pytest.param("b,inf,,1,1,,", "line 3: submit: 'inf' is not a number", id="time is infinite"),
        pytest.param("b,5,4,1,1,,", "line 3: gone 4 is before submit 5", id="ends before it begins"),
        pytest.param(",5,,1,1,,", "line 3: pod: a name is missing", id="no name"),
        pytest.param("b,5,,1,lots,,", "line 3: mem: 'lots' is not a quantity", id="invalid amount"),
        pytest.param("b,5,,-1,1,,", "line 3: milli: '-1m' is less than 0", id="negative amount"),
        pytest.param("b,5,,1,1,,,", "line 3: want 7 cells as in the first line, got 8", id="a cell too many"),
        pytest.param('b,5,,1,1,"x', "line 3: unexpected end of data", id="a quote that does not end"),
        pytest.param("b,0,,1,1,,", "line 3: time 0 is before that of an earlier row, 1; set sort: true", id="unsorted"),
    ],
)
def test_invalid_rows(read, row, message):
    with pytest.raises(TraceError) as caught:
        read(f"{HEAD}a,1,,1,1,,\n{row}\n")
    assert message in str(caught.value)
    assert "pods.csv" in str(caught.value)


def test_invalid_rows_can_be_skipped(read):
    found = read(HEAD + "a,1,,1,1,,\nb,x,,1,1,,\nc,2,,1,lots,,\nd,3,,1,1,,\n", badRows="skip")
    assert [arrival.pod.metadata.name for arrival in found] == ["a", "d"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"time": "submitted"}, "time: .*no column 'submitted'; did you mean submit", id="column"),
        pytest.param({"labels": {"a": "b"}}, "labels.a: .*no column 'b'; columns are pod, submit", id="label"),
        pytest.param({"tme": "x"}, "tme: there is no such field; did you mean time", id="field"),
        pytest.param({"unit": "hours"}, "unit: Invalid enum value 'hours'", id="unit"),
        pytest.param({"lifetime": "gone"}, "end, lifetime: give one", id="both ends"),
        pytest.param({"start": "then"}, "submit|start: 'then' is not a number", id="start"),
        pytest.param({"file": "nope.csv"}, "nope.csv: No such file", id="no file"),
    ],
)
def test_invalid_options(read, options, message):
    with pytest.raises(TraceError, match=message):
        read(HEAD, **options)


def test_a_file_that_is_empty(read):
    with pytest.raises(TraceError, match=r"pods.csv: line 1: .* the file is empty"):
        read("")


@pytest.mark.parametrize("compress", [gzip.compress, partial(bz2.compress, compresslevel=1), lzma.compress])
def test_compressed_and_truncated_files(tmp_path, compress):
    """Long enough that a part of a damaged file can be read: bz2 packs 100 kB at a time."""
    chance = Random(1)
    rows = (f"p{i},{i},,1,1,,{chance.randbytes(1_200).hex()}\n" for i in range(100))
    packed = compress((HEAD + "".join(rows)).encode())
    file = tmp_path / "pods.csv"
    file.write_bytes(packed)
    trace = open_trace("csv", COLUMNS, tmp_path)
    assert len(list(trace.arrivals())) == len(list(trace.arrivals())) == 100
    half = len(packed) // 2
    for broken, message in (
        (packed[:half], r"pods.csv: ends in the middle of the packed data"),
        (packed[:half] + bytes(100) + packed[half:], "pods.csv: "),
    ):
        file.write_bytes(broken)
        with pytest.raises(TraceError, match=message):
            list(open_trace("csv", COLUMNS, tmp_path).arrivals())


def test_nodes(tmp_path):
    (tmp_path / "pods.csv").write_text(HEAD)
    (tmp_path / "nodes.csv").write_text("node,cores,model\nn1,8,T4\nn2,16,\n")
    nodes = {"file": "nodes.csv", "name": "node", "resources": {"cpu": "cores"}, "labels": {"gpu": "model"}}
    first, second = open_trace("csv", COLUMNS | {"nodes": nodes}, tmp_path).nodes()
    assert (first.metadata.labels["gpu"], first.status.allocatable["cpu"]) == ("T4", "8")
    assert second.metadata.labels == {"kubernetes.io/hostname": "n2"}
    (tmp_path / "nodes.csv").write_text("node,cores,model\nn1,8,T4\nn1,16,\n")
    with pytest.raises(TraceError, match=r"nodes.csv: line 3: node: node 'n1' is already in line 2"):
        list(open_trace("csv", COLUMNS | {"nodes": nodes}, tmp_path).nodes())


def test_openb(tmp_path):
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "late,4000,8192,1,500,T4,LS,Running,90,100,\nearly,1000,0,0,0,,BE,Failed,10,20,\n"
    )
    early, late = open_trace("openb", {"file": "pods.csv"}, tmp_path).arrivals()
    assert (early.pod.metadata.name, late.at, late.lifetime) == ("early", 80.0, 10.0)
    assert late.pod.metadata.annotations["alibabacloud.com/gpu-milli"] == "500"


@settings(max_examples=times(30), deadline=None)
@given(st.lists(st.integers(0, 50), max_size=40))
def test_sorting_in_runs(keys):
    rows = [(key, i) for i, key in enumerate(keys)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "RUN", 7)
        patch.setattr(csv_rows, "_BATCH", 3)
        assert list(in_order(rows)) == sorted(rows)


def peak_of(folder, rows, **options):
    """Peak memory in bytes for reading this many rows."""
    with (folder / "pods.csv").open("w") as file:
        file.write(HEAD)
        for i in range(rows):
            at = (i * 7919) % rows if options else i
            file.write(f"p{i},{at},,{i % 16 + 1},1,,\n")
    trace = open_trace("csv", COLUMNS | options, folder)
    tracemalloc.start()
    try:
        assert sum(1 for _ in trace.arrivals()) == rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("options", [pytest.param({}, id="in order"), pytest.param({"sort": True}, id="sorted")])
def test_memory_does_not_grow_with_the_rows(tmp_path, monkeypatch, options):
    monkeypatch.setattr(csv_rows, "RUN", 1000)
    monkeypatch.setattr(csv_rows, "_BATCH", 20)
    peak_of(tmp_path, 100, **options)
    few, many = peak_of(tmp_path, 2_000, **options), peak_of(tmp_path, 20_000, **options)
    # A run on disk has a buffer; a row in memory would take some 500 bytes.
    assert many - few < 18_000 * 30


def test_a_full_disk_while_sorting(tmp_path, monkeypatch):
    class Full:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(csv_rows, "RUN", 2)
    monkeypatch.setattr(csv_rows, "TemporaryFile", lambda **how: Full())
    with pytest.raises(TraceError, match=r"cannot sort in .*: No space left on device; TMPDIR"):
        list(in_order([(3,), (2,), (1,)]))
