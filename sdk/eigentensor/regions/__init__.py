"""Which elements of a program's results depend on which elements that are read: boxes in, boxes out. Pure."""
