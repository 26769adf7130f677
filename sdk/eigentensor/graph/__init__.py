"""Graphs of whole tensors: what an author writes, and what is searched for the fastest program."""
