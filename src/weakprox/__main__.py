"""`python -m weakprox` is the command `weakprox`."""

from weakprox.cli import main

if __name__ == "__main__":
    main()
