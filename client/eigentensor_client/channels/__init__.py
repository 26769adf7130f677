"""Paid calls without a task each, as their client sees them: channels, calls through them, a watch over what operators
commit to. What is signed is `eigentensor.channel`'s, what is sent on chain `eigentensor.chain`'s."""
