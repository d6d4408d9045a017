"""A torch model, its loss and its data as an objective."""
