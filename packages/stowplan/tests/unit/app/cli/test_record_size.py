"""What `record` says of its file."""

import pytest

from stowplan.app.cli.record import size_text


@pytest.mark.parametrize(("size", "text"), [(43_008, "42.0 KiB"), (3 << 20, "3.0 MiB"), (0, "0.0 KiB")])
def test_small_files_have_a_size(size, text):
    assert size_text(size) == text
