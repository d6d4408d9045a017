"""The commands of `unsaddle`. Each file holds a function of its own name, which typer turns into a command."""
