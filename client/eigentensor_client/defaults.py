"""What an order says unless its client says otherwise. Imports nothing, so that the command's help is quick."""

EXEC = 30  # blocks for one execution
ACCEPT_WITHIN = 30  # blocks in which an operator may accept
CHECK = "20%"  # of the tasks are checked
STAGES = ("result", "checked", "final")  #: what a client can wait for, in the order in which they come true
LOCAL_PRICE = "0.05"  # tokens that are worth nothing: offered on a local chain if no price is said
