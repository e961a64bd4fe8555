"""Read every hostile text with every reader, in a separate process; prints a line of JSON for each.

python -m support.hostile.child DIRECTORY
"""

import json
import logging
import pathlib
import resource
import sys
import time

from support.hostile.readers import READERS, read
from support.hostile.texts import hostile_texts

#: Limits that protect the machine if a reader fails.
_MEMORY = 3 << 30
_SECONDS = 300


def main(directory):
    path = pathlib.Path(directory) / "hostile.yaml"
    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    _tell("start", "", 0.0, "")
    for text, data, readers in hostile_texts():
        path.write_bytes(data)
        for reader in readers or READERS:
            began = time.process_time()
            try:
                said = read(reader, path)
            except BaseException as error:
                said = f"TRACEBACK {type(error).__name__}: {error!s:.200}"
            _tell(text, reader, time.process_time() - began, said)


def _tell(text, reader, seconds, said):
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([text, reader, round(seconds, 3), kib // 1024, said[:300]]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
