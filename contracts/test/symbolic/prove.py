"""halmos, with sha256 as a function of all bits that it is given: release 0.3.3 takes the number of bytes for theirs."""

import sys
from typing import Any

import halmos.sevm
import z3
from halmos.__main__ import main


def function(name: str, *sorts: Any) -> z3.FuncDeclRef:
    if name.startswith("f_sha256_"):
        sorts = (z3.BitVecSort(8 * int(name.removeprefix("f_sha256_"))), sorts[-1])
    return z3.Function(name, *sorts)


halmos.sevm.Function = function
sys.exit(main())
