"""Whether a device computes as the reference does: `python -m eigentensor.runtime.probe DEVICE` ends with 0 if so.

A process of its own, since a driver that lacks something may end the one that it is in.
"""

import sys
from functools import partial

from eigentensor.errors import ExecutionError
from eigentensor.numerics.dtypes import DType
from eigentensor.runtime import selftest
from eigentensor.runtime.compiled import execute

if __name__ == "__main__":
    try:
        selftest.check(partial(execute, device=sys.argv[1]), {DType.FLOAT32})
    except ExecutionError as error:
        sys.exit(str(error))
