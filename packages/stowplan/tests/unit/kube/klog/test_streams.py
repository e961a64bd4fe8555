"""Which stream a line is written to, and when."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.klog import get_logger
from stowplan.kube.klog.setup import Buffered, Unbuffered

LOG = get_logger("stowplan.drivers.live.scheduler")


def write_one_of_each():
    LOG.info("information")
    LOG.warning("warning", a=1)
    LOG.error(None, "error")


def messages(text):
    return [word for word in ("information", "warning", "error") if f'"{word}"' in text]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_all_goes_to_stderr_by_default(log_with, format_):
    log = log_with(format=format_)
    write_one_of_each()
    assert messages(log.text) == ["information", "warning", "error"]
    assert not log.information


def test_split_text(log_with):
    log = log_with(split_stream=True)
    write_one_of_each()
    assert messages(log.information) == ["information"]
    assert messages(log.text) == ["warning", "error"]


def test_split_json_writes_warnings_as_information(log_with):
    log = log_with(format="json", split_stream=True)
    write_one_of_each()
    assert [json.loads(line)["msg"] for line in log.information.splitlines()] == ["information", "warning"]
    assert json.loads(log.text)["msg"] == "error"


def test_only_information_is_buffered(log_with):
    log = log_with(split_stream=True, info_buffer_size=10_000)
    write_one_of_each()
    assert log.logs.buffered
    assert not log.information
    assert "error" in log.text
    log.logs.flush()
    assert messages(log.information) == ["information"]
    log.logs.flush()
    assert log.information.count("\n") == 1


def test_buffering_needs_split_streams(log_with):
    log = log_with(info_buffer_size=10_000)
    write_one_of_each()
    assert not log.logs.buffered
    assert messages(log.text) == ["information", "warning", "error"]


def test_closing_flushes_the_buffer(log_with):
    log = log_with(split_stream=True, info_buffer_size=10_000)
    write_one_of_each()
    log.logs.close()
    assert messages(log.information) == ["information"]


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file")])
def test_a_broken_stream_is_ignored(error):
    class Gone(io.StringIO):
        def write(self, text):
            tried.append(text)
            raise error

    tried, stream = [], Unbuffered(Gone())
    stream.write("x\n")
    stream.write("y\n")
    assert tried == ["x\n", "y\n"]


def test_unencodable_characters_are_escaped():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Unbuffered(stream).write("é \ud800\n")
    assert raw.getvalue() == b"\\xe9 \\ud800\n"


class Pieces:
    def __init__(self):
        self.pieces = []

    def write(self, text):
        self.pieces.append(text)

    def flush(self):
        pass


@given(st.lists(st.one_of(st.text(max_size=12), st.none()), max_size=30), st.integers(1, 20))
def test_a_buffer_keeps_order_and_whole_lines_and_its_size(lines, size):
    """None among the lines is a flush."""
    out, written = Pieces(), []
    buffer = Buffered(out, size)
    for line in lines:
        if line is None:
            buffer.flush()
            assert "".join(out.pieces) == "".join(written)
            continue
        written.append(f"{line}\n")
        buffer.write(f"{line}\n")
        waiting = "".join(written).removeprefix("".join(out.pieces))
        assert "".join(written) == "".join(out.pieces) + waiting
        assert len(waiting.encode("utf-8", "replace")) <= size
    buffer.flush()
    assert "".join(out.pieces) == "".join(written)
    assert all(piece.endswith("\n") for piece in out.pieces)
