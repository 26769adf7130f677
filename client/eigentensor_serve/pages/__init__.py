"""The pages of `eigentensor serve`: its apps to be tried, the caller's tasks, receipts and channels."""
