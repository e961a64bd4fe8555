import importlib.metadata

from stowplan.scheduler.framework.entry_points import entry_points

GROUP = "tests.stowplan.entry_points"


def install(folder, name, value):
    info = folder / f"{name}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")


def test_new_entry_points_are_found_and_metadata_is_cached(tmp_path, monkeypatch):
    reads = []
    found = importlib.metadata.entry_points
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **group: reads.append(group) or found(**group))
    monkeypatch.syspath_prepend(tmp_path)
    assert entry_points(group=GROUP) == ()
    assert entry_points(group=GROUP) == ()
    assert len(reads) == 1
    install(tmp_path, "one", "os:path")
    (point,) = entry_points(group=GROUP)
    assert (point.name, point.value) == ("one", "os:path")


def test_missing_folders_are_ignored(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path / "gone")
    assert entry_points(group=GROUP) == ()
