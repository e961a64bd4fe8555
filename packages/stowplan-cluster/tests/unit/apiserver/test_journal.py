"""The state file: acknowledged writes survive a crash at any byte."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan_cluster.apiserver.journal import Journal, JournalError
from stowplan_cluster.apiserver.store import Store


def an_object(name, namespace="n", value=0):
    return {"kind": "Thing", "metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {"value": value}}


def contents(store):
    return {(storage, one.key, one.data) for storage in store.storages() for one in store.list(storage)}


def opened(path, **options):
    store = Store()
    return store, Journal(path, store, **options)


def test_a_store_is_restored_with_objects_versions_and_deletions(tmp_path):
    path = tmp_path / "state"
    store, journal = opened(path)
    store.put("things", an_object("a"))
    store.put("things", an_object("b"))
    store.put("others", an_object("a"))
    store.put("things", an_object("a", value=1))
    store.remove(store.get("things", "n", "b"))
    journal.close()
    again, journal = opened(path)
    assert contents(again) == contents(store)
    assert again.version == store.version == 5
    journal.close()


def test_a_final_deletion_keeps_its_version_after_reopening_twice(tmp_path):
    path = tmp_path / "state"
    store, journal = opened(path)
    store.remove(store.put("things", an_object("a")))
    journal.close()
    for _ in range(2):
        again, journal = opened(path)
        journal.close()
    assert again.version == 2


@given(st.data())
def test_a_truncated_file_restores_an_earlier_state(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cut")
    path = folder / "state"
    store, journal = opened(path)
    was = [(0, set())]
    for name, value in data.draw(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=8)):
        live = store.get("things", "n", name)
        if live is not None and value == 0:
            store.remove(live)
        else:
            store.put("things", an_object(name, value=value))
        was.append((store.version, contents(store)))
    journal.close()
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    path.write_bytes(whole[: data.draw(st.integers(header, len(whole)))])
    again, journal = opened(path)
    journal.close()
    assert (again.version, contents(again)) in was


def test_the_file_is_compacted_when_history_outgrows_the_state(tmp_path):
    path = tmp_path / "state"
    store, journal = opened(path, slack_bytes=1000)
    for value in range(500):
        store.put("things", an_object("a", value=value))
    assert path.stat().st_size < 3000
    journal.close()
    again, journal = opened(path)
    assert contents(again) == contents(store)
    journal.close()


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"apiVersion: v1\nkind: Pod\n", id="a manifest"),
        pytest.param(b"no newline at all", id="incomplete line"),
        pytest.param(b'{"form":"other/v9","version":1}\n', id="another form"),
        pytest.param(b'{"form":"stowplan-state/v1","version":1}\n{"storage":"things"}\n', id="a line without object"),
        pytest.param(b'{"form":"stowplan-state/v1","version":1}\n{"stor\n{"x":1}\n', id="damaged in the middle"),
    ],
)
def test_other_files_are_refused_and_not_modified(tmp_path, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="state"):
        opened(path)
    assert path.read_bytes() == content


def test_an_empty_file_is_a_new_state(tmp_path):
    path = tmp_path / "state"
    path.touch()
    store, journal = opened(path)
    assert store.version == 0
    journal.close()


def test_two_servers_cannot_share_a_file(tmp_path):
    _, journal = opened(tmp_path / "state")
    with pytest.raises(JournalError, match="another server"):
        opened(tmp_path / "state")
    journal.close()
    _, journal = opened(tmp_path / "state")
    journal.close()


def test_a_crash_during_compaction_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "state"
    store, journal = opened(path, slack_bytes=0)
    crashes = []
    whole = {"storages": store.storages, "fsync": os.fsync, "replace": Path.replace}

    def crashing_in(step):
        def noted(*args):
            crashes.append((step, path.read_bytes()))
            return whole[step](*args)

        return noted

    for place, step in ((store, "storages"), (os, "fsync"), (Path, "replace")):
        monkeypatch.setattr(place, step, crashing_in(step))
    value = 0
    while not crashes:
        value += 1
        store.put("things", an_object("a", value=value))
    monkeypatch.undo()
    journal.close()
    # The last one syncs the directory, which makes the rename durable.
    assert [step for step, _ in crashes] == ["storages", "fsync", "replace", "fsync"]
    for number, (_, data) in enumerate(crashes):
        crashed = tmp_path / f"crashed-{number}"
        crashed.write_bytes(data)
        again, journal = opened(crashed)
        found = again.get("things", "n", "a").to_dict()["spec"]["value"]
        assert found == (value if number == 3 else value - 1)
        journal.close()


def test_a_missing_directory_is_reported(tmp_path):
    with pytest.raises(JournalError, match="no is not a directory"):
        opened(tmp_path / "no" / "state")


def test_only_the_owner_can_read_it(tmp_path):
    _, journal = opened(tmp_path / "state")
    journal.close()
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0


def test_writes_during_a_full_disk_are_saved_later(tmp_path, monkeypatch, caplog):
    path = tmp_path / "state"
    store, journal = opened(path)
    write = os.write

    def full(descriptor, data):
        write(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    store.put("things", an_object("a"))
    monkeypatch.undo()
    assert "No space left on device; changes from version 1 on are in memory only" in caplog.text
    store.put("things", an_object("b"))
    journal.close()
    again, journal = opened(path)
    assert contents(again) == contents(store)
    journal.close()


def test_a_full_disk_is_logged_once_and_its_end_too(tmp_path, monkeypatch, caplog):
    store, journal = opened(tmp_path / "state")
    monkeypatch.setattr(os, "write", _no_space)
    monkeypatch.setattr(os, "fsync", lambda descriptor: _no_space(descriptor, b""))
    for name in "abc":
        store.put("things", an_object(name))
    monkeypatch.undo()
    store.put("things", an_object("d"))
    journal.close()
    path = tmp_path / "state"
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot write state file {path}: No space left on device; "
        "changes from version 1 on are in memory only until it can be",
        f"{path}: everything is saved again",
    ]


def test_delayed_writes_are_saved_at_exit(tmp_path, monkeypatch, caplog):
    path = tmp_path / "state"
    store, journal = opened(path)
    monkeypatch.setattr(os, "write", _no_space)
    store.put("things", an_object("a"))
    monkeypatch.undo()
    journal.close()
    again, journal = opened(path)
    assert contents(again) == contents(store)
    journal.close()


def test_unsaved_writes_at_exit_are_logged(tmp_path, monkeypatch, caplog):
    path = tmp_path / "state"
    store, journal = opened(path)
    monkeypatch.setattr(os, "write", _no_space)
    monkeypatch.setattr(os, "fsync", lambda descriptor: _no_space(descriptor, b""))
    store.put("things", an_object("a"))
    with pytest.raises(JournalError, match="the last changes could not be saved: No space left"):
        journal.close()
    monkeypatch.undo()
    _, journal = opened(path)
    journal.close()


def _no_space(descriptor, data):
    raise OSError(errno.ENOSPC, "No space left on device")


# -- files planted by another user -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["state", "state.lock"])
def test_a_symlink_is_not_followed(tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    with pytest.raises(JournalError, match=f"{name}: a symbolic link"):
        opened(tmp_path / "state")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("dangling", [False, True])
def test_a_symlink_in_place_of_the_new_file_is_not_followed(tmp_path, dangling):
    victim = tmp_path / "victim"
    if not dangling:
        victim.write_text("precious")
    (tmp_path / "state.new").symlink_to(victim)
    _, journal = opened(tmp_path / "state")
    journal.close()
    assert victim.exists() is not dangling
    assert dangling or victim.read_text() == "precious"
    assert not (tmp_path / "state").is_symlink()


def test_a_leftover_new_file_is_replaced(tmp_path):
    (tmp_path / "state.new").write_text("half a li")
    store, journal = opened(tmp_path / "state")
    store.put("things", an_object("a"))
    journal.close()
    again, journal = opened(tmp_path / "state")
    assert contents(again) == contents(store)
    journal.close()


@pytest.mark.parametrize("name", ["state", "state.lock"])
def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if name == "state":
        # The lock file is our own.
        lock = os.open("/dev/null", os.O_RDONLY)
        monkeypatch.setattr("stowplan_cluster.apiserver.journal._locked", lambda path: lock)
    with pytest.raises(JournalError, match=f"{name}: belongs to user {owner}"):
        opened(tmp_path / "state")


@pytest.mark.parametrize("name", ["state", "state.lock"])
def test_a_fifo_does_not_block(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(JournalError, match=f"{name}: is no file"):
        opened(tmp_path / "state")
