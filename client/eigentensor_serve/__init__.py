"""`eigentensor serve`: programs over HTTP, executed by strangers and paid by this wallet, or executed here."""
