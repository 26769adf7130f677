"""Streams of instructions: recorded as they are given, executed as programs once somebody looks at a result.

Pure but for the session that a recorder talks to. Gradients and optimisers are instructions like others.
"""
