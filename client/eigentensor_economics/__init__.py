"""What a market's terms make of everybody's wish to cheat, simulated and in closed form.

`situation` is one order in its world, `agents` who may take part in it, `expected` what each expects in closed form,
`simulation` what happens to each in many tasks, `tuning` which terms give a wanted security; `payoffs` are the
predecessors' matrix.
"""
