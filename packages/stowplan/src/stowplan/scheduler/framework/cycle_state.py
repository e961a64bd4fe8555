"""CycleState: data that plugins share within one attempt.

Upstream: pkg/scheduler/framework/cycle_state.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol, TypeVar, TypeVarTuple

from stowplan.kube.compiled import mypyc_attr
from stowplan.scheduler.cluster.pod_info import PodInfo
from stowplan.scheduler.framework.status import Status

R = TypeVar("R")
Args = TypeVarTuple("Args")

#: Key of `PodsToActivate`; plugins must not store anything else under it.
PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"


@mypyc_attr(native_class=False)
class NotFoundError(KeyError):
    """No value is stored under the key."""

    def __str__(self) -> str:
        return "not found"


class PodsToActivate:
    """Pods to activate if this attempt succeeds. Shared by all clones of the state.

    The scheduler takes them after a successful scheduling cycle, and again after a successful binding cycle.
    """

    def __init__(self) -> None:
        self._pods: dict[str, PodInfo] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __bool__(self) -> bool:
        return bool(self._pods)

    def add(self, pod: PodInfo) -> None:
        self._pods[pod.key] = pod

    def take(self) -> list[PodInfo]:
        """Remove and return the pods, in the order in which they were added."""
        pods, self._pods = self._pods, {}
        return list(pods.values())


class CallTimes(Protocol):
    """Times plugin calls."""

    def time(self, point: str, plugin: str, call: Callable[[*Args], R], *args: *Args) -> R: ...

    def ended(self, point: str, plugin: str, started: float, answer: Status | None) -> None:
        """A call in steps, or of a coroutine, that started then has this result."""


class CycleState:
    """A key-value store for one scheduling attempt. Its memos live as long as equal pods share results."""

    def __init__(self, *, asking: bool = False) -> None:
        self._memos: dict[Any, tuple[Any, Any]] = {}
        #: Whether this attempt only answers a question, such as `stowplan explain`. It must have no side effects: no
        #: metrics, no random draws (ties go to the first), no decision logs, no asynchronous work.
        self.asking = asking
        self._data: dict[str, Any] = {}
        #: Keys whose values have a `clone` method.
        self._cloning: set[str] = set()
        #: The plugin that is called to filter or score; "" otherwise.
        self.writer = ""
        #: Key -> the plugin that wrote it then.
        self._writers: dict[str, str] = {}
        #: Plugins whose PreFilter returned Skip; their Filter and pod extensions are not called.
        self.skip_filter: set[str] = set()
        #: Plugins whose PreScore returned Skip.
        self.skip_score: set[str] = set()
        #: Times the calls of plugins; None in cycles that are not sampled.
        self.plugin_times: CallTimes | None = None

    def read(self, key: str) -> Any:
        try:
            return self._data[key]
        except KeyError:
            raise NotFoundError(key) from None

    def get(self, key: str) -> Any:
        """Like `read`, but None if there is no value."""
        return self._data.get(key)

    def write(self, key: str, value: Any) -> None:
        self._data[key] = value
        if hasattr(value, "clone"):
            self._cloning.add(key)
        else:
            self._cloning.discard(key)
        if self.writer:
            self._writers[key] = self.writer

    def forget(self, plugins: Collection[str]) -> None:
        """Drop what these plugins wrote, because they will run again, and the pods to activate of the last attempt."""
        for key in [key for key, writer in self._writers.items() if writer in plugins]:
            self.delete(key)
            del self._writers[key]
        self.delete(PODS_TO_ACTIVATE)

    # As of `Memos`, without being one: compiled, a class is as quick as its slowest base.
    def memo(self, name: Any, version: Any) -> Any:
        """The value stored under this name for this version, or None."""
        found = self._memos.get(name)
        return found[1] if found is not None and found[0] == version else None

    def remember(self, name: Any, version: Any, value: Any) -> Any:
        self._memos[name] = (version, value)
        return value

    def forget_memos(self) -> None:
        self._memos.clear()

    def delete(self, key: str) -> None:
        self._data.pop(key, None)
        self._cloning.discard(key)

    @property
    def pods_to_activate(self) -> PodsToActivate:
        """Pods to activate if this attempt succeeds."""
        found = self._data.get(PODS_TO_ACTIVATE)
        if not isinstance(found, PodsToActivate):
            found = self._data[PODS_TO_ACTIVATE] = PodsToActivate()
        return found

    def take_pods_to_activate(self) -> list[PodInfo]:
        """Remove and return the pods to activate."""
        if PODS_TO_ACTIVATE not in self._data:
            return []
        found = self._data.get(PODS_TO_ACTIVATE)
        return found.take() if isinstance(found, PodsToActivate) else []

    def clone(self) -> CycleState:
        """A copy that pod extensions may modify. Skip sets and timing are copied as well.

        State that pod extensions modify must have a `clone` method; other values are shared between the copies.
        """
        # Every attempt makes one: attributes are set once.
        copy = CycleState.__new__(CycleState)
        copy._memos, copy.asking, copy.writer, copy._writers = {}, self.asking, "", {}
        copy._data = data = self._data.copy()
        copy._cloning = self._cloning.copy()
        for key in copy._cloning:
            data[key] = data[key].clone()
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.plugin_times = self.plugin_times
        return copy
