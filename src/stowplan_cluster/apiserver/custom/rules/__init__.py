"""CEL rules of custom resources, `x-kubernetes-validations`.

`declared_types` says which static type a schema has in expressions, `values` makes an object's parts values of those
types, `compilation` compiles the rules of one schema, `evaluation` judges objects by them, and `definitions` says which
rules a definition may have. CEL itself is `stowplan.cel`.

Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel, k8s.io/apiserver/pkg/cel/common.
"""
