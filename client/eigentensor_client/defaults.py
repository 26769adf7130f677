"""What an order says unless its client says otherwise. Imports nothing, so that the command's help is quick."""

EXEC = 30  # blocks for one execution, where the market allows as many
ACCEPT_WITHIN = 100  # blocks in which an operator may accept
ACCEPT_EACH = 2  # blocks more for each task that was posted before it in the same call
CHECK = "20%"  # of the tasks are checked
STAGES = ("result", "checked", "final")  #: what a client can wait for, in the order in which they come true
LOCAL_PRICE = "0.05"  # tokens that are worth nothing: offered on a local chain if no price is said
