"""Container images per node.

Upstream: pkg/scheduler/backend/cache (imageStates).
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.kube.api.types import Node


class ImageState:
    """One image name: its first reported size, and the rows that have it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        #: Parity: the first reported size is kept while any node has the image.
        self.size = size
        self.rows: set[int] = set()


class ImageIndex:
    """Image name -> state, updated as nodes change."""

    def __init__(self) -> None:
        self._states: dict[str, ImageState] = {}

    def get(self, name: str) -> ImageState | None:
        return self._states.get(name)

    def __bool__(self) -> bool:
        return bool(self._states)

    def items(self) -> list[tuple[str, ImageState]]:
        return list(self._states.items())

    def add(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                state = self._states.get(name)
                if state is None:
                    state = self._states[name] = ImageState(image.size_bytes)
                state.rows.add(row)

    def remove(self, row: int, node: Node) -> None:
        for image in node.status.images:
            for name in image.names:
                state = self._states.get(name)
                if state is not None:
                    state.rows.discard(row)
                    if not state.rows:
                        del self._states[name]

    def set_size(self, name: str, size: int) -> None:
        self._states[name].size = size

    def saved(self, row: int, *nodes: Node) -> Callable[[], None]:
        """A function that restores the images of a row's node in its current version."""
        names = {name for node in nodes for image in node.status.images for name in image.names}
        states = [(name, self._states.get(name)) for name in names]
        held = [(name, state, state is not None and row in state.rows) for name, state in states]

        def restore() -> None:
            for name, state, on_row in held:
                if state is None:
                    self._states.pop(name, None)
                    continue
                # Rows of other nodes have not changed since.
                self._states[name] = state
                if on_row:
                    state.rows.add(row)
                else:
                    state.rows.discard(row)

        return restore
