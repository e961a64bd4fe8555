"""The types of arrays. Most have an element per node, as the last axis.

NumPy's own names for them are in a module of which nothing else is needed when the scheduler runs.
"""

from typing import Any

import numpy as np

Mask = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
Ints = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Floats = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
#: Rows of the node table, or positions among those of a view.
Rows = np.ndarray[tuple[Any, ...], np.dtype[np.intp]]
#: Small numbers that stand for values, such as those of a label or of a class of rows.
Codes = Rows
#: Pods that match a term.
Counts = np.ndarray[tuple[Any, ...], np.dtype[np.int32]]
#: What is found out about each row, as the numbers of an Enum.
Verdicts = np.ndarray[tuple[Any, ...], np.dtype[np.int8]]
Values = np.ndarray[tuple[Any, ...], np.dtype[Any]]
