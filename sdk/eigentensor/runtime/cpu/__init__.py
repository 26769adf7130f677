"""Processors: schedules of loops, C text, clang and libLLVM, and the table that runs the code."""
