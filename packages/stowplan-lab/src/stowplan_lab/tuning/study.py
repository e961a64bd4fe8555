"""The Optuna study: the trials made, their results, and what to try next.

Every trial is stored in Optuna's storage as soon as it is done, so an interrupted search can resume. Trials are made in
batches of a fixed size, independent of the number of workers, and each has its own random source, derived from the seed
and its number: the next trials depend on earlier batches only. So a search gives the same result on one core as on a
hundred machines, and when it was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from random import Random
from typing import Any, NamedTuple, Self

from stowplan_lab.tuning.objective import TuningError
from stowplan_lab.tuning.search_runs import Measures
from stowplan_lab.tuning.space import SpaceSpec, Values, chosen

NO_OPTUNA = "stowplan tune needs the package optuna: pip install 'stowplan-lab[tune]'"
#: Number of trials that are drawn before any of them is run.
BATCH = 8
#: Number of initial random trials.
_BY_CHANCE = 16
_NAME = "stowplan tune"
_MADE_FROM = "made from"
#: What is stored for each trial in addition to Optuna's data.
_VALUES, _MEASURES, _ERROR = "values", "measures", "error"


class FinishedTrial(NamedTuple):
    """A finished trial."""

    number: int
    values: Values
    #: None: it failed.
    score: float | None
    measures: Measures
    error: str


class Study:
    def __init__(self, storage: str, *, seed: int, made_from: Mapping[str, Any], resume: bool) -> None:
        """`storage`: a URL for Optuna, or a file path. `made_from`: everything that the search depends on."""
        self._optuna = optuna = _optuna()
        self._seed = seed
        self._states = optuna.trial.TrialState
        with ExitStack() as stack:
            self._study = self._opened(storage, stack)
            self._check(storage, made_from, resume)
            self._closing = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _check(self, storage: str, made_from: Mapping[str, Any], resume: bool) -> None:
        """Reject a storage with another search, or one that was not asked to be resumed."""
        known = self._study.user_attrs.get(_MADE_FROM)
        if known is None:
            self._study.set_user_attr(_MADE_FROM, dict(made_from))
        elif not resume:
            raise TuningError(f"{storage}: there is a search already: continue it with --resume, or use another folder")
        elif known != made_from:
            other = ", ".join(name for name in made_from if known.get(name) != made_from[name])
            raise TuningError(f"{storage}: the search there was made from something else: {other} differs")

    def _opened(self, storage: str, closing: ExitStack) -> Any:
        optuna = self._optuna
        try:
            if "://" in storage:
                held = optuna.storages.RDBStorage(storage)
                closing.callback(held.engine.dispose)
            else:
                journal = import_module("optuna.storages.journal")
                held = optuna.storages.JournalStorage(journal.JournalFileBackend(storage))
            return optuna.create_study(
                storage=held, study_name=_NAME, direction="minimize", load_if_exists=True, sampler=self._sampler(0)
            )
        except Exception as error:
            # Any exception of a database, a driver or a damaged file.
            raise TuningError(f"{storage}: cannot be used as storage: {type(error).__name__}: {error}") from error

    def _sampler(self, number: int) -> Any:
        seed = Random(f"{self._seed}/trial {number}").getrandbits(32)
        return self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=_BY_CHANCE)

    def batch(self, space: SpaceSpec, first: int, last: int) -> dict[int, Values]:
        """The trials from `first` to before `last`; of existing ones, those that are not done yet."""
        known = {trial.number: trial for trial in self._study.get_trials(deepcopy=False)}
        found: dict[int, Values] = {}
        for number in range(first, last):
            if number not in known:
                self._study.sampler = self._sampler(number)
                found[number] = chosen(space, _Asking(self._study.ask()))
                self._keep(number, values=found[number])
            elif not known[number].state.is_finished():
                kept = self._kept(number)
                if kept:
                    found[number] = kept[_VALUES]
                else:
                    self.fail(number, "interrupted while it was drawn")
        return found

    def tell(self, number: int, score: float, measures: Measures) -> None:
        self._keep(number, measures=measures)
        self._study.tell(number, score)

    def fail(self, number: int, error: str) -> None:
        self._keep(number, error=error)
        self._study.tell(number, state=self._states.FAIL)

    def _keep(self, number: int, **what: Any) -> None:
        self._study.set_user_attr(f"trial {number}", {**self._kept(number), **what})

    def _kept(self, number: int) -> dict[str, Any]:
        kept: dict[str, Any] = self._study.user_attrs.get(f"trial {number}", {})
        return kept

    def done(self) -> list[FinishedTrial]:
        """In order of their numbers."""
        kept = self._study.user_attrs
        return [
            FinishedTrial(
                trial.number,
                kept[f"trial {trial.number}"].get(_VALUES, {}),
                trial.value if trial.state == self._states.COMPLETE else None,
                kept[f"trial {trial.number}"].get(_MEASURES, []),
                kept[f"trial {trial.number}"].get(_ERROR, ""),
            )
            for trial in self._study.get_trials(deepcopy=False)
            if trial.state.is_finished()
        ]


class _Asking:
    """Optuna's trial as the space's chooser."""

    def __init__(self, trial: Any) -> None:
        self._trial = trial

    def whole(self, name: str, low: int, high: int) -> int:
        return int(self._trial.suggest_int(name, low, high))

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        return str(self._trial.suggest_categorical(name, list(choices)))


def _optuna() -> Any:
    """An optional dependency."""
    try:
        optuna: Any = import_module("optuna")
    except ImportError as error:
        raise TuningError(NO_OPTUNA) from error
    with suppress(AttributeError):
        optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
