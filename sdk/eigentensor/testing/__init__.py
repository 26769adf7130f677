"""What tests, the demo and the local network are made of: public and typed, for users' own tests too."""
