"""The commands of `unsaddle`, one a file, each with a function of its own name that typer turns into a command."""
