"""An engine with scripted reactions, on simulated time, which records its inputs."""

from stowplan.scheduler.engine.effects import Effect
from stowplan.scheduler.engine.inputs import Answer, Changes, Schedule, Started


class ScriptedEngine:
    """Reacts to inputs with actions: `engine.on(Tick, Bind(...))` once, `always` every time.

    A reaction may also be a function of the input that returns actions.
    """

    def __init__(self):
        self.heard = []
        #: Turns that it still wants.
        self.turns = 0
        self.coroutines = {}
        self.driver = None
        self._reactions = {}
        self._number = 0
        self.numbers = {}

    def attach(self, driver):
        self.driver = driver

    @property
    def wants_turn(self):
        return self.turns > 0

    def on(self, kind, *actions):
        """The next input of this kind causes these actions."""
        self._reactions.setdefault(kind, []).append(actions)

    def step(self, input_, now):
        self.heard.append((now, input_))
        if isinstance(input_, Schedule):
            self.turns -= 1
        waiting = self._reactions.get(type(input_))
        actions = waiting.pop(0) if waiting else ()
        return [self._effect(action) for action in actions]

    def _effect(self, action):
        self._number += 1
        if callable(action):
            action = action()
        self.numbers[self._number] = action
        return Effect(self._number, action)

    def run_plugin(self, action):
        return self.coroutines[action.plugin]()

    # -- recorded inputs ----------------------------------------------------------------------------------------------

    def inputs(self, *kinds):
        return [(now, input_) for now, input_ in self.heard if isinstance(input_, kinds)]

    @property
    def answers(self):
        """(time, action, outcome) of each answer."""
        return [(now, self.numbers[one.number], one.outcome) for now, one in self.inputs(Answer)]

    @property
    def news(self):
        """(time, kind, [(old, new)]) of each batch of changes."""
        return [(now, one.kind, [(c.old, c.new) for c in one.changes]) for now, one in self.inputs(Changes)]

    @property
    def rest(self):
        """All inputs but the first, by name."""
        return [(now, type(one).__name__) for now, one in self.heard if not isinstance(one, Started)]
