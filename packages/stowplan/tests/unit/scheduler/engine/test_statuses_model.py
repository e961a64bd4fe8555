"""Pod statuses compared with a plain model of what the API server must have in the end, in any sequence of events."""

from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from stowplan.kube.api.api_errors import Conflict, Forbidden, NotFound
from stowplan.kube.api.decode import DecodeError
from stowplan.kube.api.port import Unreachable
from stowplan.kube.api.types import ObjectMeta, Pod, PodCondition
from stowplan.net.client.client_errors import OutcomeUnknown
from stowplan.scheduler.engine.statuses import MAX_CONCURRENT_PATCHES, PodStatuses
from support.examples import times
from support.scheduling.scripted_effects import ScriptedEffects

#: More than the concurrency limit; single pods are picked among the first few.
NAMES = [f"p{number}" for number in range(MAX_CONCURRENT_PATCHES + 4)]
TRIES = 4
RETRIABLE = (Unreachable("away"), Conflict("newer"))
FINAL = (Forbidden("no"), NotFound("gone"))
LOST = (OutcomeUnknown("cut"), DecodeError(field="spec", message="odd"))

pods = st.sampled_from((*NAMES[:1] * 3, *NAMES[:3]))
#: Fields that may end in several states, so that nothing is expected of them.
unlucky_pods = st.sampled_from(NAMES[2:4])
messages = st.sampled_from(("x", "y")).map(lambda message: {"message": message})
nodes = st.sampled_from(("", "n1")).map(lambda node: {"nominated": node})
#: A condition's message, and a nominated node; either may be left unchanged.
wishes = messages | nodes | st.builds(lambda message, node: message | node, messages, nodes)


class Server:
    """The pods of an API server, with all their versions."""

    def __init__(self):
        self.versions = {name: [Pod(metadata=ObjectMeta(name=name, uid=name, resource_version="1"))] for name in NAMES}
        self._version = 1

    def newest(self, name):
        return self.versions[name][-1]

    def change(self, name, **changes):
        self._version += 1
        pod = self.newest(name)
        metadata = replace(pod.metadata, resource_version=str(self._version))
        self.versions[name].append(replace(pod, metadata=metadata, **changes))
        return self.newest(name)

    def patch(self, request):
        status = self.newest(request.name).status
        body = request.body["status"]
        conditions = {one.type: one for one in status.conditions}
        for one in body.get("conditions", ()):
            old = conditions.get(one["type"], PodCondition(type=one["type"]))
            names = {"message": "message", "status": "status", "lastTransitionTime": "last_transition_time"}
            conditions[old.type] = replace(old, **{names[key]: value for key, value in one.items() if key in names})
        nominated = body.get("nominatedNodeName", status.nominated_node_name) or ""
        return self.change(
            request.name, status=replace(status, conditions=tuple(conditions.values()), nominated_node_name=nominated)
        )

    def says(self, name):
        status = self.newest(name).status
        messages = {one.type: one.message for one in status.conditions}
        return {"message": messages.get("PodScheduled"), "nominated": status.nominated_node_name}


class Claims:
    """What the API server must have for a pod in the end."""

    def __init__(self):
        #: Field -> its value, and the number of the write.
        self.fields = {}
        self.wished = 0
        #: Whether a patch may have changed more than is known: then nothing is expected until the informer has seen it.
        self.unsure = False
        #: Refusals since the newest write.
        self.tries = 0

    def wish(self, wish):
        self.wished += 1
        self.tries = 0
        for field, value in wish.items():
            self.fields[field] = value, self.wished
            if self.unsure:
                del self.fields[field]

    def drop(self, upto):
        self.fields = {field: claim for field, claim in self.fields.items() if claim[1] > upto}

    def lose(self):
        self.fields.clear()
        self.unsure = True


class Listener:
    def __init__(self, machine, name):
        self.machine = machine
        self.name = name
        self.heard = 0

    def status_written(self, failed):
        self.heard += 1

    def withdrawn(self):
        self.heard += 1
        assert self.name not in [waiter.name for waiter in self.machine.effects.outbox.awaited.values()]


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.server = Server()
        self.effects = ScriptedEffects()
        self.statuses = PodStatuses(self.effects.outbox, random=lambda: 0.5, report=lambda text: None)
        self.effects.checks.append(self.statuses.problems)
        self.claims = {name: Claims() for name in NAMES}
        #: What the informer has seen of each pod, as an index of its versions.
        self.seen = dict.fromkeys(NAMES, 0)
        #: Number -> the server's answer, before it has arrived.
        self.delivered = {}
        #: Number -> the newest write that it may contain, and the try.
        self.sent = {}
        self.listeners = []
        self.closing = False

    # -- what the scheduler does --------------------------------------------------------------------------------------

    @rule(name=pods, wishes=st.lists(wishes, min_size=1, max_size=3))
    def write(self, name, wishes):
        """The first may be in progress when the others are written."""
        for wish in wishes:
            with self.effects.step():
                self._write(name, wish)
            self._note_sent()

    @rule(wish=wishes)
    def write_to_all(self, wish):
        with self.effects.step():
            for name in NAMES:
                self._write(name, wish)
        self._note_sent()

    def _write(self, name, wish):
        self.statuses.write(self._informed(name), **_arguments(wish))
        self.claims[name].wish(wish)

    @rule(name=pods, wish=wishes, earlier=st.none() | wishes)
    def patch(self, name, wish, earlier):
        if earlier is not None:
            self.write(name, [earlier])
        self.listeners.append(Listener(self, name))
        with self.effects.step():
            self.claims[name].wish(wish)
            self.statuses.patch(self._informed(name), self.listeners[-1], **_arguments(wish))
        self._note_sent()

    @rule(name=pods)
    def withdraw(self, name):
        listener = Listener(self, name)
        under_way = name in self._names_under_way()
        with self.effects.step():
            withdrawal = SimpleNamespace(status_written=lambda failed: listener.withdrawn())
            assert self.statuses.withdraw(name, withdrawal) == under_way
        if under_way:
            self.listeners.append(listener)
        self.claims[name].drop(self.claims[name].wished)
        self._give_up(name)

    @rule(name=unlucky_pods)
    def forget(self, name):
        with self.effects.step():
            self.statuses.forget(name)
        # Its last answers are forgotten, too.
        self.claims[name].lose()
        self._give_up(name)

    @rule()
    @precondition(lambda self: self.effects.now > 10.0)
    def close(self):
        self.closing = True
        with self.effects.step():
            self.statuses.last_try()
        self._note_sent()

    # -- what happens to it -------------------------------------------------------------------------------------------

    @rule(name=pods, newest=st.booleans())
    def observe(self, name, newest):
        last = len(self.server.versions[name]) - 1
        self.seen[name] = last if newest else min(self.seen[name] + 1, last)
        with self.effects.step():
            self.statuses.observe(self._informed(name))
        bound = bool(self._informed(name).spec.node_name)
        if self.seen[name] == last and not bound and name not in self._names_under_way():
            self.claims[name].unsure = False

    @rule(name=pods)
    def another_client_writes(self, name):
        status = self.server.newest(name).status
        others = tuple(one for one in status.conditions if one.type != "Other")
        other = PodCondition(type="Other", status="True", message=str(self.server._version))
        self.server.change(name, status=replace(status, conditions=(other, *others)))

    @rule(name=unlucky_pods)
    def another_client_binds(self, name):
        self.server.change(name, spec=replace(self.server.newest(name).spec, node_name="n9"))
        # Patches of bound pods are for victims, once each.
        self.claims[name].lose()

    @rule(seconds=st.sampled_from((0.005, 0.02, 0.1, 2.0)))
    def time_passes(self, seconds):
        self.effects.advance(seconds)
        self._note_sent()

    @rule()
    def everything_is_done(self):
        while self.effects.under_way or self.effects.pauses:
            while self.effects.under_way:
                self._done(next(iter(self.effects.under_way)))
            self.time_passes(2.0)
        assert self.statuses.idle
        assert {listener.heard for listener in self.listeners} <= {1}
        for name, claims in self.claims.items():
            said = self.server.says(name)
            assert {field: (said[field], number) for field, (_, number) in claims.fields.items()} == claims.fields

    # -- answers ------------------------------------------------------------------------------------------------------

    @rule(name=pods)
    def deliver(self, name):
        """The server carries it out; its answer has not arrived yet."""
        for number in self._numbers(name):
            self._deliver(number)

    @rule(name=pods)
    def done(self, name):
        for number in self._numbers(name):
            self._done(number)

    @rule(
        name=pods,
        error=st.sampled_from(RETRIABLE * 2 + FINAL),
        # Written during the retry delay.
        between=st.lists(st.none() | wishes, min_size=1, max_size=6),
    )
    def refused(self, name, error, between):
        for wish in between:
            for number in self._numbers(name):
                if number not in self.delivered:
                    self._refuse(number, error)
            if wish is not None:
                self.write(name, [wish])
            if len(between) > 1:
                self.time_passes(2.0)

    @rule(name=pods, error=st.sampled_from(LOST), seen=st.booleans())
    def answer_is_lost(self, name, error, seen):
        for number in self._numbers(name):
            if isinstance(error, DecodeError):
                self._deliver(number)
            self.claims[name].lose()
            self._answer(number, error)
        if seen:
            self.observe(name, newest=True)

    # -- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def few_are_under_way(self):
        names = self._names_under_way()
        assert len(names) == len(set(names)) == self.statuses.under_way
        lanes = [request.lane for request in self.effects.under_way.values()]
        assert lanes.count("status") <= MAX_CONCURRENT_PATCHES

    def teardown(self):
        self.everything_is_done()
        for name in NAMES:
            self.observe(name, newest=True)
        assert not self.statuses._known

    # -- parts --------------------------------------------------------------------------------------------------------

    def _informed(self, name):
        return self.server.versions[name][self.seen[name]]

    def _names_under_way(self):
        return [request.name for request in self.effects.under_way.values()]

    def _numbers(self, name):
        return [number for number, request in self.effects.under_way.items() if request.name == name]

    def _claims_of(self, number):
        return self.claims[self.effects.under_way[number].name]

    def _note_sent(self):
        for number in self.effects.under_way.keys() - self.sent.keys():
            claims = self._claims_of(number)
            claims.tries += 1
            self.sent[number] = claims.wished, claims.tries

    def _deliver(self, number):
        if number not in self.delivered:
            self.delivered[number] = self.server.patch(self.effects.under_way[number])
        return self.delivered[number]

    def _done(self, number):
        self._claims_of(number).tries = 0
        self._answer(number, self._deliver(number))

    def _refuse(self, number, error):
        name = self.effects.under_way[number].name
        wished, tries = self.sent[number]
        ends = error in FINAL or tries == TRIES or self.closing
        if ends:
            self.claims[name].drop(wished)
        self._answer(number, error)
        if not self._informed(name).spec.node_name:
            assert (name in [alarm.target.name for alarm in self.effects.outbox.alarms]) == (not ends)

    def _give_up(self, name):
        """A request in progress is not retried."""
        for number in self._numbers(name):
            self.sent[number] = self.claims[name].wished, TRIES

    def _answer(self, number, answer):
        self.effects.answer(answer, number=number)
        self._note_sent()


def _arguments(wish):
    condition = None
    if "message" in wish:
        condition = PodCondition(type="PodScheduled", status="False", message=wish["message"])
    return {"condition": condition, "nominated_node_name": wish.get("nominated")}


def test_the_final_status_is_the_one_written_last():
    run_state_machine_as_test(Machine, settings=settings(max_examples=times(100), stateful_step_count=50))
