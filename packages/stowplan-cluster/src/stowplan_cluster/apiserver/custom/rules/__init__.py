"""CEL rules of custom resources, `x-kubernetes-validations`.

`compilation` says which static type a schema has in expressions, compiles its rules and says what is wrong with them;
`evaluation` makes an object's parts values of those types and judges it. CEL itself is
`stowplan.kube.cel`. Costs of rules are not estimated: budgets stop what costs too much.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel, k8s.io/apiserver/pkg/cel/common.
"""
