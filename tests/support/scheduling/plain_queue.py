"""A plain reference implementation of the scheduling queue: lists of dicts, scanned linearly, without indexes or heaps.

Times, places, orders and counters must equal those of `SchedulingQueue`. The events of an update come from the project
(`events_of_change` has tests of its own); nothing else does.
"""

from collections import Counter
from functools import cmp_to_key
from math import floor, inf

from stowplan.scheduler.framework.events import events_of_change

ALL = 32767
PLACES = ("ACTIVE", "BACKOFF", "ERROR_BACKOFF", "UNSCHEDULABLE")


def by_priority(a, b):
    """Whether `a` goes first."""
    if a["info"].priority != b["info"].priority:
        return a["info"].priority > b["info"].priority
    return a["timestamp"] < b["timestamp"]


def hears(registered, incoming):
    resource, mask = registered.resource, int(registered.action)
    if resource == "*" and mask == ALL:
        return True
    same = resource in ("*", incoming.resource)
    if resource == "Pod" and incoming.resource in ("AssignedPod", "UnschedulablePod", "UnscheduledPod", "TargetPod"):
        same = True
    return same and mask & int(incoming.action) != 0 and int(incoming.action) <= mask


def label_of(event):
    return event.custom_label or event.label


def is_wildcard(event):
    return event.resource == "*" and int(event.action) == ALL


class PlainQueue:
    """`profiles`: name -> {"gates": [(plugin, function)], "events": {plugin: [(event, hint function or None)]}}."""

    def __init__(self, profiles, *, now, store, settings, version, first=by_priority):
        #: What changed in 1.37: the name of pods without a node, and what happens to gated ones.
        self.version, self.newer = version, version >= (1, 37)
        self.new = "UnscheduledPod" if self.newer else "UnschedulablePod"
        self.profiles, self.now, self.store, self.settings, self.first = profiles, now, store, settings, first
        self.pods = []
        self.flight = []
        self.nominated = []
        self.arrivals = 0
        self.cycle = 0
        self.incoming, self.rejected_by = Counter(), Counter()
        self.start = now()
        self.looked, self.swept = self.start, -inf
        self.rejected_in_a_row = 0

    # -- lookups ------------------------------------------------------------------------------------------------------

    def find(self, key):
        return next((p for p in self.pods if p["info"].key == key), None)

    def of(self, *places):
        return sorted((p for p in self.pods if p["place"] in places), key=lambda p: p["arrival"])

    def flying(self, uid):
        return next((i for i, what in enumerate(self.flight) if what[0] == "pod" and what[1] == uid), None)

    def ordered(self, pods):
        def compare(a, b):
            if self.first(a, b):
                return -1
            return 1 if self.first(b, a) else a["arrival"] - b["arrival"]

        return sorted(pods, key=cmp_to_key(compare))

    # -- gates, backoff -----------------------------------------------------------------------------------------------

    def gate(self, pod):
        gates = self.profiles[pod["profile"]]["gates"]
        for plugin, passes in sorted(gates, key=lambda gate: gate[0] != pod["gate"]):
            if not passes(pod["info"]):
                if plugin not in pod["no"] | pod["pending"]:
                    self.rejected_by[plugin, pod["profile"]] += 1
                pod["no"].add(plugin)
                pod["gate"] = plugin
                return True
        pod["gate"] = ""
        return False

    def expiry(self, pod):
        count = pod["errors"] if pod["errors"] > 0 else pod["rejections"]
        if count == 0 or self.settings["max_backoff"] == 0:
            return -inf
        seconds = self.settings["initial_backoff"]
        for _ in range(count - 1):
            seconds = min(2 * seconds, self.settings["max_backoff"])
        moment = pod["timestamp"] + min(seconds, self.settings["max_backoff"])
        return floor(moment) if self.settings["pop_from_backoff"] else moment

    def backs_off(self, pod, now=None):
        now = self.now() if now is None else now
        now = floor(now) if self.settings["pop_from_backoff"] else now
        return self.expiry(pod) != -inf and self.expiry(pod) >= now

    # -- moves --------------------------------------------------------------------------------------------------------

    def put(self, pod, place):
        self.pods = [p for p in self.pods if p["info"].key != pod["info"].key]
        self.arrivals += 1
        pod.update(place=place, arrival=self.arrivals)
        self.pods.append(pod)

    def sleep(self, pod, cause, *, left=False):
        if self.newer and pod["gate"]:
            pod["flushed"] = False
        known = self.find(pod["info"].key)
        if known is pod and pod["place"] == "UNSCHEDULABLE":
            # A pod that an event moves leaves first, and keeps its position.
            self.incoming["unschedulable", cause] += left
            return
        if known is not None and known["place"] != "UNSCHEDULABLE":
            return
        self.put(pod, "UNSCHEDULABLE")
        self.incoming["unschedulable", cause] += 1

    def to_active(self, pod, cause, *, from_backoff=False, left=False):
        new = cause in (f"{self.new}Add", f"{self.new}Update")
        if new and self.newer:
            self.nominate(pod["info"], None)
        if not (from_backoff and self.settings["pop_from_backoff"]) and self.gate(pod):
            self.sleep(pod, cause, left=left)
            return False
        if pod["initial"] is None:
            pod["initial"] = self.now()
        self.put(pod, "ACTIVE")
        self.incoming["active", cause] += 1
        if new and not self.newer:
            self.nominate(pod["info"], None)
        return True

    def to_backoff(self, pod, cause, *, left=False):
        if self.settings["pop_from_backoff"] and self.gate(pod):
            self.sleep(pod, cause, left=left)
            return False
        self.put(pod, "BACKOFF" if pod["no"] | pod["pending"] else "ERROR_BACKOFF")
        self.incoming["backoff", cause] += 1
        return True

    def requeue(self, pod, strategy, cause, *, left=False):
        if strategy == "Skip":
            self.sleep(pod, cause)
            return False
        if strategy == "AfterBackoff" and self.backs_off(pod):
            return self.to_backoff(pod, cause, left=left)
        return self.to_active(pod, cause, left=left)

    # -- events -------------------------------------------------------------------------------------------------------

    def strategy(self, pod, event, old, new):
        rejectors = pod["no"] | pod["pending"]
        if not rejectors:
            return "AfterBackoff"
        if is_wildcard(event):
            return "Skip" if new is not None and new.metadata.uid != pod["info"].uid else "AfterBackoff"
        found = "Skip"
        for plugin in rejectors:
            for registered, hint in self.profiles[pod["profile"]]["events"].get(plugin, ()):
                if hears(registered, event) and self.says_queue(hint, pod, old, new):
                    if plugin in pod["pending"]:
                        return "Immediately"
                    found = "AfterBackoff"
        return found

    def says_queue(self, hint, pod, old, new):
        if hint is None:
            return True
        try:
            return hint(pod["info"], old, new).value == "Queue"
        except ZeroDivisionError:
            return True

    def of_interest(self, event):
        return any(
            hears(registered, event)
            for profile in self.profiles.values()
            for events in profile["events"].values()
            for registered, _ in events
        )

    def gate_hears(self, pod, event):
        return any(
            hears(registered, event)
            for profile in self.profiles.values()
            for registered, _ in profile["events"].get(pod["gate"], ())
        )

    def move_all(self, event, old, new, pre_check=None):
        if self.of_interest(event):
            self.move(
                [p for p in self.of("UNSCHEDULABLE") if pre_check is None or pre_check(p["info"])], event, old, new
            )

    def move(self, pods, event, old, new):
        strategies = [self.strategy(pod, event, old, new) for pod in pods]
        for pod, strategy in zip(pods, strategies, strict=True):
            held = pod["gate"] and not self.gate_hears(pod, event) and not (self.newer and is_wildcard(event))
            if strategy != "Skip" and not held:
                self.requeue(pod, strategy, label_of(event), left=True)
        if any(what[0] == "pod" for what in self.flight):
            self.flight.append(("event", event, old, new))

    # -- calls of the scheduler ---------------------------------------------------------------------------------------

    def arriving(self, info):
        return {
            "info": info, "profile": info.pod.spec.scheduler_name, "timestamp": self.now(), "attempts": 0,
            "rejections": 0, "errors": 0, "flushed": False,
            "flushed at": -inf, "initial": None, "no": set(), "pending": set(), "gate": "",
            "place": None, "arrival": 0,
        }  # fmt: skip

    def add(self, info):
        self.to_active(self.arriving(info), f"{self.new}Add")

    def update(self, old, info):
        events = events_of_change(old, info.pod, self.version)
        if self.flying(info.uid) is not None:
            self.flight += [("event", event, old, info.pod) for event in events]
            return
        pod = self.find(info.key)
        if pod is None:
            self.to_active(self.arriving(info), f"{self.new}Update")
            return
        pod["info"] = info
        self.update_nominated(old, info)
        if pod["place"] != "UNSCHEDULABLE":
            return
        for event in events:
            if self.requeue(pod, self.strategy(pod, event, old, info.pod), label_of(event)):
                return

    def delete(self, info):
        self.nominated = [n for n in self.nominated if n[0] != info.uid]
        pod = self.find(info.key)
        if pod is None:
            return
        if self.newer or pod["place"] == "UNSCHEDULABLE":
            for plugin in pod["no"] | pod["pending"]:
                self.rejected_by[plugin, pod["profile"]] -= 1
        self.pods.remove(pod)

    def next_active(self):
        pods = self.ordered(self.of("ACTIVE"))
        if not pods:
            return None
        pod, most = pods[0], self.settings["rejected_in_a_row"]
        if most and self.first is by_priority and self.rejected_in_a_row >= most:
            equals = [p for p in pods if p["info"].priority == pod["info"].priority]
            pod = next((p for p in equals if not p["rejections"]), pod)
        self.rejected_in_a_row = self.rejected_in_a_row + 1 if pod["rejections"] else 0
        return pod

    def pop(self):
        while True:
            pod = self.next_active()
            if pod is None and self.settings["pop_from_backoff"]:
                waiting = self.ordered(self.of("BACKOFF"))
                pod = min(waiting, key=self.expiry, default=None)
                self.incoming["active", "PopFromBackoffQ"] += pod is not None
            if pod is None:
                return None
            self.pods.remove(pod)
            pod["attempts"] += 1
            if self.flying(pod["info"].uid) is None:
                break
        self.flight.append(("pod", pod["info"].uid))
        self.cycle += 1
        for plugin in pod["no"] | pod["pending"]:
            self.rejected_by[plugin, pod["profile"]] -= 1
        return pod

    def done(self, uid):
        at = self.flying(uid)
        if at is None:
            return
        del self.flight[at]
        while self.flight and self.flight[0][0] == "event":
            del self.flight[0]

    def returns(self, pod):
        """`pod` came from `pop`, with its rejecting plugins set; False if another pod of its name is queued."""
        if self.find(pod["info"].key) is not None:
            self.done(pod["info"].uid)
            return False
        if not pod["no"] | pod["pending"]:
            pod["errors"] += 1
        else:
            pod["rejections"], pod["errors"] = pod["rejections"] + 1, 0
        pod.update({"timestamp": self.now(), "flushed": False, "flushed at": -inf, "gate": ""})
        for plugin in pod["no"] | pod["pending"]:
            self.rejected_by[plugin, pod["profile"]] += 1
        strategy = self.after_attempt(pod)
        self.done(pod["info"].uid)
        self.requeue(pod, strategy, "ScheduleAttemptFailure")
        return True

    def after_attempt(self, pod):
        at = self.flying(pod["info"].uid)
        if not pod["no"] | pod["pending"] or at is None:
            return "AfterBackoff"
        events = [what[1:] for what in self.flight[at:] if what[0] == "event"]
        found = [self.strategy(pod, *event) for event in events]
        best = next((s for s in ("Immediately", "AfterBackoff") if s in found), "Skip")
        return best

    def activate(self, infos, wildcard):
        for info in infos:
            pod = self.find(info.key)
            if pod is not None and pod["place"] == "UNSCHEDULABLE" and self.to_active(pod, "ForceActivate"):
                continue
            if pod is not None and pod["place"] in ("BACKOFF", "ERROR_BACKOFF"):
                self.pods.remove(pod)
                if self.to_active(pod, "ForceActivate", from_backoff=True):
                    continue
            if self.flying(info.uid) is not None:
                self.flight.append(("event", wildcard, None, info.pod))

    def plugins_change(self, profiles):
        before, after = ({(name, p) for name in of for p in of[name]["events"]} for of in (self.profiles, profiles))
        self.profiles = profiles
        for pod in self.of("UNSCHEDULABLE"):
            if any((pod["profile"], plugin) in before - after for plugin in pod["no"] | pod["pending"]):
                self.requeue(pod, "AfterBackoff", "PluginsChanged", left=True)

    def last_tick(self, period):
        begin = floor(self.start) if self.settings["pop_from_backoff"] and period == 1 else self.start
        return begin + floor((self.now() - begin) / period) * period

    def flush(self, wildcard):
        now = self.last_tick(1)
        if now > self.looked:
            self.looked = now
            free = []
            for place in ("BACKOFF", "ERROR_BACKOFF"):
                ordered = self.of(place)
                if place == "BACKOFF" and self.settings["pop_from_backoff"]:
                    ordered = self.ordered(ordered)
                free += sorted((p for p in ordered if not self.backs_off(p, now)), key=self.expiry)
            for pod in free:
                self.pods.remove(pod)
            for pod in free:
                self.to_active(pod, "BackoffComplete", from_backoff=True)
        now = self.last_tick(30)
        if now > self.swept:
            self.swept = now
            longest = self.settings["max_in_unschedulable"]
            late = [p for p in self.of("UNSCHEDULABLE") if now - max(p["timestamp"], p["flushed at"]) > longest]
            for pod in late:
                pod["flushed"] = True
                if self.newer:
                    pod["flushed at"] = self.now()
            if late:
                self.move(late, wildcard, None, None)

    # -- nominations --------------------------------------------------------------------------------------------------

    def nominate(self, info, node):
        node = info.pod.status.nominated_node_name if node is None else node
        stored = self.store.get(info.key)
        wanted = [(info.uid, node)] if node and stored is not None and stored.metadata.uid == info.uid else []
        if wanted and wanted[0] in self.nominated:
            # A renewed nomination keeps its age.
            return
        self.nominated = [n for n in self.nominated if n[0] != info.uid] + wanted

    def update_nominated(self, old, info):
        node = None
        if not old.status.nominated_node_name and not info.pod.status.nominated_node_name:
            node = dict(self.nominated).get(old.metadata.uid)
        self.nominated = [n for n in self.nominated if n[0] != old.metadata.uid or old.metadata.uid == info.uid]
        self.nominate(info, node)
