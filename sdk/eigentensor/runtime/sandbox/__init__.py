"""Strangers' programs, and the compilers of their kernels, in processes that can do nothing else."""
