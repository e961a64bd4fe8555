"""The API for writing controllers of custom resources. See docs/extend/controllers.md for a guide.

A controller says which kinds it reads, which of its objects a change concerns, and what to write for one of them:

    class QueueDepth(Controller):
        name = "queue-depth"
        reads_kinds = (Queue, Pod)

        def keys_of(self, change):
            obj = change.new or change.old
            return [key_of(obj.metadata)] if isinstance(obj, Queue) else [f"{obj.metadata.namespace}/queue"]

        def reconcile(self, key, objects, now):
            queue = objects.get(Queue, key)
            if queue is None:
                return DONE
            depth = len(objects.in_namespace(Pod, queue.metadata.namespace))
            return Reconciled([status_patch(queue, {"depth": depth})])

It does no I/O and reads no clock: `Runner` has the informers, the queue of keys and the lease, and carries out what a
reconcile returns. `run_command` makes a program of controllers; `stowplan up` runs those of installed packages, by the
entry-point group "stowplan.controllers".

Controllers        Controller, Reconciled, DONE, Change, status_patch
Objects            Objects, ObjectIndex, key_of, convert (a document to an object of a kind, as in tests)
Requests           Create, Update, Patch, Delete
Events             Event, NORMAL, WARNING
Measured data      Source, SourceError, MeasuringClient
Running them       Runner, run_command, installed_controllers
"""

from typing import TYPE_CHECKING

from stowplan.kube.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from stowplan.controllers.command import run_command as run_command
    from stowplan.controllers.controller import DONE as DONE
    from stowplan.controllers.controller import Change as Change
    from stowplan.controllers.controller import Controller as Controller
    from stowplan.controllers.controller import Objects as Objects
    from stowplan.controllers.controller import Reconciled as Reconciled
    from stowplan.controllers.controller import installed_controllers as installed_controllers
    from stowplan.controllers.controller import status_patch as status_patch
    from stowplan.controllers.runner import Runner as Runner
    from stowplan.kube.api.decode import convert as convert
    from stowplan.kube.api.reconcile_events import NORMAL as NORMAL
    from stowplan.kube.api.reconcile_events import WARNING as WARNING
    from stowplan.kube.api.reconcile_events import Event as Event
    from stowplan.scheduler.cluster.objects import ObjectIndex as ObjectIndex
    from stowplan.scheduler.cluster.objects import key_of as key_of
    from stowplan.scheduler.framework.requests import Create as Create
    from stowplan.scheduler.framework.requests import Delete as Delete
    from stowplan.scheduler.framework.requests import Patch as Patch
    from stowplan.scheduler.framework.requests import Update as Update
    from stowplan.scheduler.framework.sources import MeasuringClient as MeasuringClient
    from stowplan.scheduler.framework.sources import Source as Source
    from stowplan.scheduler.framework.sources import SourceError as SourceError
else:
    __getattr__, __dir__ = lazy_imports(__name__, __file__)
