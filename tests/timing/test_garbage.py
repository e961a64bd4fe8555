"""How often the garbage collector runs."""

from __future__ import annotations

import gc

from stowplan.timing.garbage import collect_garbage_less_often


def test_seldom_is_less_often_than_by_default() -> None:
    before = gc.get_threshold()
    try:
        collect_garbage_less_often()
        assert all(new > old for new, old in zip(gc.get_threshold(), (700, 10, 10), strict=True))
    finally:
        gc.set_threshold(*before)
