"""CEL, the Common Expression Language, with the libraries of Kubernetes.

A text goes through the same stages as in the reference: `parser` (with `lexer` and `macros`) makes a syntax tree,
`checker` gives every node a static type and picks overloads by the declarations of an `environment`, `compiler` turns
the tree into nested closures that count what they cost. `device_selectors` is the environment of device selectors; who
has another environment (rules of custom resources) makes it with `environment`.

Values are Python's own where they fit: bool, int, float, str, bytes, None, list, dict. `values` has the rest and what
CEL means by equality, order and type. Errors while evaluating are exceptions; `&&`, `||` and comprehensions store them
where CEL says that they are absorbed.

Upstream: cel-go, k8s.io/apiserver/pkg/cel, k8s.io/dynamic-resource-allocation/cel.
"""
