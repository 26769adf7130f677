"""The solver as a command: answers the SMT-LIB file that it is given, with a model where there is one."""

import sys

import bitwuzla

options = bitwuzla.Options()
options.set(bitwuzla.Option.PRODUCE_MODELS, True)
bitwuzla.Parser(bitwuzla.TermManager(), options).parse(sys.argv[1])
