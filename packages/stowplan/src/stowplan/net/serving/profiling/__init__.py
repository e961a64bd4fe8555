"""/debug/pprof: profiles for `go tool pprof`.

A Python program has no Go runtime, so each profile is the closest equivalent, or empty if there is none; for a list see
`pages`. Profiles contain code locations (module, function, file, line), but never values of variables, arguments or
objects, so they cannot leak secrets. They cost nothing while they are not requested.

Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/profiling.go, which installs Go's net/http/pprof.
"""
