"""Paid calls as their operator serves them: what it takes, executes, remembers and owes. Nothing here talks to a
chain: what happened there is fed in by events, and what a batch needs is asked for by `interface.Calls`."""
