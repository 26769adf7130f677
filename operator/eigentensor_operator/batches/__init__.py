"""Batches of paid calls on chain: an operator's own, and its shares of others' as a verifier. `machine` decides,
`steps` does, `running` feeds the one and starts the other."""
