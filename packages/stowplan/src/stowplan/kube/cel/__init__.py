"""CEL, the Common Expression Language, with the libraries of Kubernetes.

An expression goes through the same stages as in the reference: `parser` (with `lexer` and `macros`) builds a syntax
tree, `checker` assigns every node a static type and selects overloads by the declarations of an `environment`, and
`compiler` converts the tree to nested closures that count their cost. `device_selectors` is the environment of device
selectors; others (for rules of custom resources) are created with `environment`.

Values are Python's own where possible: bool, int, float, str, bytes, None, list, dict. `values` defines the others, and
CEL's equality, order and types. Evaluation errors are exceptions; `&&`, `||` and comprehensions store them where CEL
absorbs them.

Upstream: cel-go, k8s.io/apiserver/pkg/cel, k8s.io/dynamic-resource-allocation/cel.
"""
