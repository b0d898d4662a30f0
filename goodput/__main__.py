"""`python -m goodput` is the command `goodput`."""

from goodput.cli import main

main()
