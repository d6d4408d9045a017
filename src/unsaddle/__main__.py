"""`python -m unsaddle` is the command `unsaddle`."""

from unsaddle.cli import main

main()
