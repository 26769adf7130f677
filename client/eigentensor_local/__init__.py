"""A network on one machine, its demo, and the actors of both: public and typed, for users' own tests too."""
