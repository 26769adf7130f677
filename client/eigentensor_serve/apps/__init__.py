"""What is deployed: programs with their weights, terms and budgets, asked by name."""
