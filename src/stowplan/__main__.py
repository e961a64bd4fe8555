"""`python -m stowplan` is the `stowplan` command."""

from stowplan.cli.main import main

if __name__ == "__main__":
    main()
