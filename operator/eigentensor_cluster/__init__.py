"""The cluster: a door for many clients, workers that execute what they ask for, and a dispatcher between the two."""
