"""The author's side: all paths to the same mathematics, what each costs here, and how exact it is."""
