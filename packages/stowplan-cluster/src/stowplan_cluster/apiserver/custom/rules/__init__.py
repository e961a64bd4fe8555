"""CEL rules of custom resources, `x-kubernetes-validations`.

`declared_types` says which static type a schema has in expressions, `values` makes an object's parts values of those
types, `compilation` compiles the rules of one schema and says what is wrong with them, and `evaluation` judges objects.
CEL itself is `stowplan.kube.cel`. Costs of rules are not estimated: budgets stop what costs too much.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel, k8s.io/apiserver/pkg/cel/common.
"""
