"""/debug/pprof: profiles for `go tool pprof`.

A Python program has no Go runtime, so each profile is its nearest equivalent, and where there is none the answer says
so: `pages` lists what each of them is. Code is named (module, function, file, line), values never are: nobody's local
variable, argument or object is looked into, so no secret can get into a profile. Nothing of it costs anything while
nobody asks.

Upstream: staging/src/k8s.io/apiserver/pkg/server/routes/profiling.go, which installs Go's net/http/pprof.
"""
