"""The client's side of a cluster: a session holds tensors and executes programs, in this process or elsewhere."""
