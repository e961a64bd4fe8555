"""What controllers decide: functions of objects and the time, without an API server, a clock or chance.

They see typed views of objects and return what to write. The embedded cluster's controllers and a simulation's carry
that out, each on its own store.

Upstream: pkg/controller.
"""
