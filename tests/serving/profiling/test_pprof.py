"""The encoding, checked by an independent decoder."""

import gzip

from hypothesis import given
from hypothesis import strategies as st

from stowplan.serving.profiling.pprof import Frame, Profile, stack_of
from support.serving.pprof_reading import message, read_profile

frames = st.builds(Frame, st.text(max_size=8), st.text(max_size=8), st.integers(0, 500), st.integers(0, 2**31))
samples = st.lists(st.tuples(st.lists(frames, max_size=5).map(tuple), st.integers(0, 2**62), st.integers(0, 9)))


@given(samples, st.lists(st.text(max_size=5), max_size=3))
def test_round_trip(added, comments):
    profile = Profile(("samples", "count"), ("cpu", "nanoseconds"), period=("cpu", "nanoseconds", 7))
    expected = {}
    for stack, first, second in added:
        first %= 2**40
        profile.add(stack, first, second)
        sums = expected.setdefault(stack, [0, 0])
        sums[0] += first
        sums[1] += second
    profile.comments += comments
    profile.lasted = 1.5
    found = read_profile(profile.encode())
    assert found.types == [("samples", "count"), ("cpu", "nanoseconds")]
    assert (found.period, found.duration, found.comments) == (7, 1_500_000_000, comments)
    assert [values for _, values in found.samples] == list(expected.values())
    named = [[(frame.function, frame.file, frame.line) for frame in stack] for stack in expected]
    assert [stack for stack, _ in found.samples] == named
    assert len(set(found.strings)) == len(found.strings)


def test_labels_keep_equal_stacks_apart():
    profile = Profile(("n", "count"))
    for label in ("a", "b", "a"):
        profile.add((Frame("f"),), 1, labels=(("who", label),))
    assert [values for _, values in read_profile(profile.encode()).samples] == [[2], [1]]


def test_a_function_is_written_once():
    profile = Profile(("n", "count"))
    for line in (3, 4, 3):
        profile.add((Frame("f", "f.py", 1, line), Frame("g", "f.py", 9, line)), 1)
    whole = message(gzip.decompress(profile.encode()))
    assert [len(whole[part]) for part in (2, 4, 5)] == [2, 4, 2]


def test_stacks_start_with_the_innermost_frame_and_are_truncated():
    import sys

    def deep(n):
        return deep(n - 1) if n else stack_of(sys._getframe(), deepest=3)

    stack = deep(10)
    assert [frame.function.rpartition(".")[2] for frame in stack] == ["deep"] * 3
    assert stack[0].file == __file__
    assert stack[0].start == deep.__code__.co_firstlineno
