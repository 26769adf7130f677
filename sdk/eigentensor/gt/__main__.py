"""`python -m eigentensor.gt server|worker|top|trace|visualize`."""

import sys

from eigentensor.gt.commands import execute

if __name__ == "__main__":
    execute(sys.argv[1:])
