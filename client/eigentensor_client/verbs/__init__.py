"""One module per verb of the command line: read arguments, ask the client, print."""
