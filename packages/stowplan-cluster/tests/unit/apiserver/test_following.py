"""List and watch through the embedded API: followers end up with the current state, whatever happens.

The history is so short that slow readers fall out of it and have to list again.
"""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.types import Pod
from stowplan.net.client.list_watch import ListWatch
from stowplan_cluster.apiserver.embedded import EmbeddedApi
from support.api.clients import VirtualTime
from support.api.embedded import Api, pod
from support.examples import examples

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "bind", "delete", "burst", "turn", "turn"]), st.sampled_from("abc")),
    max_size=25,
)


class Follower:
    """The state that a scheduler would have."""

    def __init__(self):
        self.view = {}

    def deliver(self, changes):
        for change in changes:
            old, new = change.old, change.new
            key = (new or old).metadata.name
            assert (old is None) == (key not in self.view), "ADDED for known objects, or MODIFIED for unknown ones"
            if old is not None:
                assert self.view[key] == old, "the old object is not the one delivered before"
            if new is None:
                del self.view[key]
            else:
                self.view[key] = new


class Counted(Api):
    """Counts lists from their first page."""

    lists = 0

    def counted(self):
        plug = EmbeddedApi(self.server)
        whole = plug.list

        async def counting(kind, *, continue_="", **rest):
            self.lists += not continue_
            return await whole(kind, continue_=continue_, **rest)

        plug.list = counting
        return plug


def carry_out(api, step, name, count):
    live = api.store.get("pods", "default", name)
    if step == "put" and live is None:
        api.create("pods", pod(name, labels={"n": str(count)}))
    elif step == "put":
        api.patch("pods", "default", name, {"metadata": {"labels": {"n": str(count)}}})
    elif step == "delete" and live is not None:
        api.store.remove(live)
    elif step == "bind" and live is not None and not live.field("spec.nodeName"):
        api.registry.bind("default", name, {"metadata": {"name": name}, "target": {"name": "n1"}})
    elif step == "burst":
        for number in range(12):
            api.create("pods", pod(f"burst-{count}-{number}"))
            if number % 2:
                api.store.remove(api.store.get("pods", "default", f"burst-{count}-{number}"))


async def follow(steps, field_selector):
    api, follower = Counted(), Follower()
    # Shorter than any real history, so that readers fall behind.
    api.server.store._history_changes = 8
    listing = ListWatch(
        api.counted(),
        Pod,
        times=VirtualTime(),
        report=lambda report: None,
        namespace="default",
        field_selector=field_selector,
        page=2,
    )
    task = asyncio.create_task(listing.run(follower.deliver))
    for count, (step, name) in enumerate(steps):
        if step == "turn":
            await asyncio.sleep(0)
        else:
            carry_out(api, step, name, count)
    wanted = {
        stored.name: stored.version
        for stored in api.store.list("pods", "default")
        if not field_selector or not stored.field("spec.nodeName")
    }
    for _ in range(200):
        await asyncio.sleep(0)
        known = {name: int(one.metadata.resource_version) for name, one in follower.view.items()}
        if known == wanted and listing.synced.is_set():
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert known == wanted
    return api.lists


@given(STEPS, st.sampled_from(["", "spec.nodeName="]))
@examples(60)
def test_a_follower_ends_up_with_the_current_state(steps, field_selector):
    asyncio.run(follow(steps, field_selector))


def test_a_follower_that_fell_behind_lists_again():
    """Otherwise the property might hold because no follower ever fell behind."""
    steps = [("turn", "a")] * 8 + [("put", "a"), ("burst", "a"), ("delete", "a"), ("burst", "a")]
    assert asyncio.run(follow(steps, "")) == 2
