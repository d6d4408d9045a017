"""The map x = Sz that searches run in: what it is, what users hand in for it, and the objective seen through it."""
